// Rows of a packed matrix by index.
#include "kernels/cpu/host_view.h"
#include "kernels/cpu/packed_matrix.h"

namespace redpoll::kernels::cpu {

mx::array PackedMatrix::gather_rows(const mx::array& ids) const {
  constexpr std::int64_t kRowsPerPart = 16;
  const HostIds rows(ids);
  const auto num_rows = static_cast<std::int64_t>(rows.ids().size());
  HostArray out = make_array({static_cast<int>(num_rows), in_features()});
  const auto unpack = packed_.bits == 0 ? unpack_dense_row : unpack_quantized_row;
  context_->team.parallel_for(num_rows, kRowsPerPart, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      unpack(packed_, rows.ids()[static_cast<std::size_t>(i)], out.data + i * in_features());
    }
  });
  return std::move(out.array);
}

}  // namespace redpoll::kernels::cpu
