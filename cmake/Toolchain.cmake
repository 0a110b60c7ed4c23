# Compiler-wide settings: warnings, sanitizers, and ccache and mold where present.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

find_program(MOLD_PROGRAM mold)
if(MOLD_PROGRAM AND NOT APPLE)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wall> $<$<COMPILE_LANGUAGE:CXX>:-Wextra>)
if(REDPOLL_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

# Build type "Sanitize": fast enough to run every test, with line numbers in reports.
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")
set(CMAKE_C_FLAGS_SANITIZE "${CMAKE_CXX_FLAGS_SANITIZE}")
if(REDPOLL_SANITIZE)
  add_compile_options(-fsanitize=${REDPOLL_SANITIZE})
  add_link_options(-fsanitize=${REDPOLL_SANITIZE})
  if(REDPOLL_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  if(REDPOLL_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # Boost.Asio uses fences, which gcc's thread sanitizer does not model
  endif()
endif()

if(REDPOLL_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage, which is what libFuzzer steers by
endif()

find_package(Threads REQUIRED)
