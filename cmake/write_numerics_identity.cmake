# Writes a source file with the SHA-256 of all sources in FOLDERS of ROOT, by name and content, and of COMPILER.
set(summed "${COMPILER}")
foreach(folder ${FOLDERS})
  file(GLOB_RECURSE sources RELATIVE "${ROOT}" "${ROOT}/${folder}/*.h" "${ROOT}/${folder}/*.cpp")
  list(SORT sources)
  foreach(source ${sources})
    file(SHA256 "${ROOT}/${source}" sum)
    string(APPEND summed "\n${source} ${sum}")
  endforeach()
endforeach()
string(SHA256 identity "${summed}")
file(WRITE "${OUTPUT}" "#include \"engine/numerics_identity.h\"

namespace redpoll::engine {

std::string_view numerics_identity() { return \"${identity}\"; }

}  // namespace redpoll::engine
")
