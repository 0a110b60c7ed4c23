#include "text/rust_call.h"

#include <gtest/gtest.h>

#include "text/versions.h"

namespace redpoll::text {
namespace {

TEST(RustLibrary, TurnsAPanicIntoAnError) {
  RustBuffer message;
  const RpStatus status = rp_panic(message.out());
  EXPECT_EQ(status, RP_PANIC);
  const Error error = rust_failure(status, message.view(), ErrorCode::kCorruptFile).error();
  EXPECT_EQ(error.code, ErrorCode::kInternal);
  EXPECT_EQ(error.message, "the text library failed: as asked");
}

TEST(RustLibrary, NamesItsVersions) {
  const auto versions = library_versions();
  ASSERT_EQ(versions.size(), 2U);
  EXPECT_EQ(versions[0], std::pair(std::string("tokenizers"), std::string("0.23.2")));
  EXPECT_EQ(versions[1], std::pair(std::string("minijinja"), std::string("3.1.0")));
}

}  // namespace
}  // namespace redpoll::text
