# The text library: one Rust static archive (tokenizers, chat templates) behind the C header rust/include/redpoll_text.h.
# The dev profile of the crate is optimised but skips link-time optimisation, which would relink for minutes after
# every change; packaging passes -DREDPOLL_CARGO_PROFILE=release.
find_program(CARGO_PROGRAM cargo HINTS "$ENV{HOME}/.cargo/bin" REQUIRED)
set(REDPOLL_CARGO_PROFILE "fast" CACHE STRING "Cargo profile of the text library: fast or release")
set(REDPOLL_CARGO_TARGET "${PROJECT_BINARY_DIR}/cargo" CACHE PATH "Cargo's target folder")

set(rust_dir "${PROJECT_SOURCE_DIR}/rust")
set(rust_archive "${REDPOLL_CARGO_TARGET}/${REDPOLL_CARGO_PROFILE}/libredpoll_text.a")
file(GLOB_RECURSE rust_sources CONFIGURE_DEPENDS "${rust_dir}/src/*.rs" "${rust_dir}/build.rs")
add_custom_command(
  OUTPUT "${rust_archive}"
  COMMAND ${CMAKE_COMMAND} -E env "CARGO_TARGET_DIR=${REDPOLL_CARGO_TARGET}"
          "${CARGO_PROGRAM}" build --locked --profile "${REDPOLL_CARGO_PROFILE}" --manifest-path "${rust_dir}/Cargo.toml"
  DEPENDS ${rust_sources} "${rust_dir}/Cargo.toml" "${rust_dir}/Cargo.lock"
  USES_TERMINAL VERBATIM COMMENT "cargo build redpoll_text")
add_custom_target(redpoll_text_archive DEPENDS "${rust_archive}")

add_library(redpoll_rust_text STATIC IMPORTED GLOBAL)
set_target_properties(redpoll_rust_text PROPERTIES
  IMPORTED_LOCATION "${rust_archive}"
  INTERFACE_INCLUDE_DIRECTORIES "${rust_dir}/include"
  INTERFACE_LINK_LIBRARIES "Threads::Threads;m;${CMAKE_DL_LIBS}")
add_dependencies(redpoll_rust_text redpoll_text_archive)
