# Writes a source file with the SHA-256 of all files in FOLDERS of ROOT, by name and content, of the file BUILD, and of
# COMPILER. NAMES is there for who calls it, whose command changes with it.
file(SHA256 "${BUILD}" build)
set(summed "${COMPILER}\n${build}")
foreach(folder ${FOLDERS})
  file(GLOB_RECURSE sources RELATIVE "${ROOT}" "${ROOT}/${folder}/*")
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
