# MLX comes as a wheel that scripts/setup unpacked: headers, libmlx and its CMake package. No Python is involved.
set(MLX_ROOT "${REDPOLL_DEPS}/mlx-cpu/mlx" CACHE PATH "The mlx folder of an unpacked MLX wheel")
if(APPLE)
  set(MLX_ROOT "${REDPOLL_DEPS}/mlx-metal/mlx" CACHE PATH "The mlx folder of an unpacked MLX wheel" FORCE)
endif()
if(NOT EXISTS "${MLX_ROOT}/include/mlx/mlx.h")
  message(FATAL_ERROR "MLX is not in ${MLX_ROOT}: run scripts/setup, or pass -DMLX_ROOT=<unpacked wheel>/mlx")
endif()
find_package(MLX CONFIG REQUIRED PATHS "${MLX_ROOT}/share/cmake/MLX" NO_DEFAULT_PATH)
