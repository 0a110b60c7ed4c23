# redpoll_numerics_identity(TARGET FOLDER...): adds the source file that defines engine/numerics_identity.h, from all
# files in these folders of src/, what the build says of them, the compiler and its flags. It is written again whenever
# one of them changes, comes or goes.
function(redpoll_numerics_identity target)
  set(globs "")
  foreach(folder ${ARGN})
    list(APPEND globs "${PROJECT_SOURCE_DIR}/src/${folder}/*")
  endforeach()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${globs})
  set(build "${PROJECT_SOURCE_DIR}/src/CMakeLists.txt")
  list(JOIN sources " " names)
  string(SHA256 names "${names}")
  string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
  set(compiler "${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} for ${CMAKE_SYSTEM_PROCESSOR}:")
  string(APPEND compiler " ${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${build_type}}")
  set(generated "${CMAKE_CURRENT_BINARY_DIR}/numerics_identity.cpp")
  set(script "${PROJECT_SOURCE_DIR}/cmake/write_numerics_identity.cmake")
  add_custom_command(
    OUTPUT "${generated}"
    COMMAND ${CMAKE_COMMAND} "-DROOT=${PROJECT_SOURCE_DIR}/src" "-DFOLDERS=${ARGN}" "-DCOMPILER=${compiler}"
            "-DBUILD=${build}" "-DNAMES=${names}" "-DOUTPUT=${generated}" -P "${script}"
    DEPENDS ${sources} "${build}" "${script}"
    COMMENT "Summing the sources that decide what is computed"
    VERBATIM)
  target_sources(${target} PRIVATE "${generated}")
endfunction()
