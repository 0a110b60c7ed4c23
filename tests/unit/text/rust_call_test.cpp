#include "text/rust_call.h"

#include <gtest/gtest.h>

#include "text/versions.h"

namespace redpoll::text {
namespace {

// That a panic becomes a status is tested beside the guard, in rust/src/abi.rs.
TEST(RustLibrary, APanicIsOurFaultAndABadInputTheCallers) {
  const Error panic = rust_failure(RP_PANIC, "the text library failed: x", ErrorCode::kCorruptFile).error();
  EXPECT_EQ(panic.code, ErrorCode::kInternal);
  EXPECT_EQ(panic.message, "the text library failed: x");
  EXPECT_EQ(rust_failure(RP_INVALID, "x", ErrorCode::kCorruptFile).error().code, ErrorCode::kCorruptFile);
  EXPECT_EQ(rust_failure(RP_UNSUPPORTED, "x", ErrorCode::kCorruptFile).error().code, ErrorCode::kUnsupported);
}

TEST(RustLibrary, NamesItsVersions) {
  const auto versions = library_versions();
  ASSERT_EQ(versions.size(), 2U);
  EXPECT_EQ(versions[0], std::pair(std::string("tokenizers"), std::string("0.23.2")));
  EXPECT_EQ(versions[1], std::pair(std::string("minijinja"), std::string("3.1.0")));
}

}  // namespace
}  // namespace redpoll::text
