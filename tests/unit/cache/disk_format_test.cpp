// The format of files against its document, and every way in which a header can be damaged.
#include "cache/disk_format.h"

#define XXH_INLINE_ALL
#include <gmock/gmock.h>
#include <xxhash.h>

#include <algorithm>
#include <ostream>
#include <random>

#include "unit/cache/disk_fixture.h"

namespace redpoll::cache {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kChecksumAt = 16;

ContentKey key(std::string_view hex) {
  ContentKey key;
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = static_cast<std::byte>(std::stoi(std::string(hex.substr(2 * i, 2)), nullptr, 16));
  }
  return key;
}

void put(Bytes& bytes, std::size_t offset, std::uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes[offset + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> (8 * i));
}

/// As a writer would have done it that meant what is there.
void put_checksum(Bytes& header) {
  Bytes rest = header;
  rest.erase(rest.begin() + kChecksumAt, rest.begin() + kChecksumAt + 8);
  put(header, kChecksumAt, XXH3_64bits(rest.data(), rest.size()), 8);
}

FileHeader example(int num_tokens) {
  FileHeader header;
  Tokens tokens;
  for (int i = 0; i < num_tokens; ++i) tokens.push_back(i * 37 % 50'000);
  header.head = head_of(StoredKind::kSnapshot, root_key(kFingerprint), 8, std::move(tokens));
  header.head.parts = {{.group = 0, .first_block = 3, .num_blocks = 2},
                       {.group = 2, .first_block = 0, .num_blocks = 1}};
  header.fingerprint = kFingerprint;
  header.payload_bytes = 1'000;
  header.payload_checksum = 0x0123456789abcdef;
  header.created_at = 1'700'000'000;
  return header;
}

std::uint64_t file_bytes(const FileHeader& header) { return header_bytes(header.head) + header.payload_bytes; }

TEST(DiskFormatTest, KeysAreHalfASha256) {
  // Python: sha256(b"redpoll kv root\n" + b"ab" * 32 + b"\n" + bytes(16)).digest()[:16], and for the others
  // sha256(b"redpoll kv run\n" + parent + struct.pack("<4i", 1, 2, 3, 258)), sha256(b"redpoll kv snapshot\n" + ...).
  std::string fingerprint;
  for (int i = 0; i < 32; ++i) fingerprint += "ab";
  const ContentKey root = root_key(fingerprint);
  EXPECT_EQ(root, key("bd93ae5c3140d8461720af4865758192"));
  const ContentKey run = run_key(root, Tokens{1, 2, 3, 258});
  EXPECT_EQ(run, key("6f0808d35ea4d9fbfeac550bc5fbbf8a"));
  EXPECT_EQ(snapshot_key(run, Tokens{7}), key("d44a99cd59c86810283fe235a0d55741"));
  EXPECT_EQ(snapshot_key(run, {}), key("a0f8fe3b950ba3b7f28c76672cf55e16"));
}

TEST(DiskFormatTest, ChecksumsAreXxh3) {
  EXPECT_EQ(payload_checksum({}), 0x2d06800538d394c2U);  // of nothing, as xxHash's specification has it
}

TEST(DiskFormatTest, TheLayoutIsThatOfTheDocument) {
  const FileHeader header = example(3);
  Bytes expected(4096);
  std::ranges::copy(std::as_bytes(std::span("redpolkv", 8)), expected.begin());
  put(expected, 8, 1, 4);      // version
  put(expected, 12, 4096, 4);  // header length
  put(expected, 24, 2, 4);     // a snapshot
  put(expected, 28, 8, 4);     // first token
  put(expected, 32, 3, 4);     // tokens
  put(expected, 36, 2, 4);     // parts
  put(expected, 40, 1'000, 8);
  put(expected, 48, 0x0123456789abcdef, 8);
  put(expected, 56, 1'700'000'000, 8);
  std::fill_n(expected.begin() + 64, 32, std::byte{0xaa});  // the fingerprint
  std::ranges::copy(header.head.parent, expected.begin() + 96);
  std::ranges::copy(header.head.key, expected.begin() + 112);
  for (int i = 0; i < 3; ++i) put(expected, 128 + 4 * static_cast<std::size_t>(i), static_cast<unsigned>(i * 37), 4);
  std::size_t at = 140;
  for (const unsigned number : {0U, 3U, 2U, 2U, 0U, 1U}) {
    put(expected, at, number, 4);
    at += 4;
  }
  put_checksum(expected);
  EXPECT_EQ(encode_header(header), expected);
}

TEST(DiskFormatTest, WhatIsWrittenIsReadBack) {
  for (const int num_tokens : {0, 1, 4, 256, 985, 986, 987, 5'000}) {  // 986 tokens and two parts fill 4096 bytes
    const FileHeader header = example(num_tokens);
    const Bytes bytes = encode_header(header);
    EXPECT_EQ(bytes.size() % 4096, 0U);
    EXPECT_EQ(bytes.size(), header_bytes(header.head));
    EXPECT_EQ(bytes.size(), num_tokens <= 986 ? 4096U : num_tokens == 987 ? 8192U : 20'480U);
    EXPECT_EQ(announced_header_bytes(std::span(bytes).first(kFirstHeaderBytes), file_bytes(header)), bytes.size());
    const auto back = decode_header(bytes, file_bytes(header));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->head, header.head);
    EXPECT_EQ(back->fingerprint, header.fingerprint);
    EXPECT_EQ(back->payload_bytes, header.payload_bytes);
    EXPECT_EQ(back->payload_checksum, header.payload_checksum);
    EXPECT_EQ(back->created_at, header.created_at);
  }
}

TEST(DiskFormatTest, EveryFlippedBitIsCaught) {
  for (const int num_tokens : {3, 1'500}) {
    const FileHeader header = example(num_tokens);
    Bytes bytes = encode_header(header);
    ASSERT_TRUE(decode_header(bytes, file_bytes(header)));
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
      ASSERT_FALSE(decode_header(bytes, file_bytes(header))) << "bit " << bit;
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
    }
  }
}

TEST(DiskFormatTest, EveryTruncationIsCaught) {
  const FileHeader header = example(3);
  Bytes bytes = encode_header(header);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(decode_header(std::span(bytes).first(size), size)) << size;
    ASSERT_FALSE(decode_header(std::span(bytes).first(size), file_bytes(header))) << size;
  }
  for (std::uint64_t size = bytes.size(); size < file_bytes(header) + 5; ++size) {
    ASSERT_EQ(decode_header(bytes, size).has_value(), size == file_bytes(header)) << size;
  }
}

TEST(DiskFormatTest, AnotherVersionIsSaidToBeOne) {
  const FileHeader header = example(3);
  Bytes bytes = encode_header(header);
  put(bytes, 8, 2, 4);
  put_checksum(bytes);
  const auto read = decode_header(bytes, file_bytes(header));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(read.error().message, "format version: expected 1, got 2");
}

struct BadField {
  std::size_t offset;
  std::uint64_t value;
  int size;
  const char* message;

  friend void PrintTo(const BadField& field,
                      std::ostream* out) {  // NOLINT(readability-identifier-naming): gtest's name
    *out << field.message << " at " << field.offset << ": " << field.value;
  }
};

class DiskFormatFieldTest : public testing::TestWithParam<BadField> {};
INSTANTIATE_TEST_SUITE_P(
    Fields, DiskFormatFieldTest,
    testing::Values(BadField{0, 'R', 1, "does not begin with"}, BadField{12, 0, 4, "header length"},
                    BadField{12, 4095, 4, "header length"}, BadField{12, 8192, 4, "header length"},
                    BadField{12, 0xfffff000, 4, "header length"}, BadField{24, 0, 4, "kind"},
                    BadField{24, 3, 4, "kind"}, BadField{24, 1, 4, "the key is not"},
                    BadField{28, 0x80000000, 4, "first token"}, BadField{28, 0x7fffffff, 4, "number of tokens"},
                    BadField{32, 0xffffffff, 4, "header length"}, BadField{32, 4, 4, "blocks of a part"},
                    BadField{32, 2'000, 4, "header length"}, BadField{36, 0xffffffff, 4, "header length"},
                    BadField{36, 1, 4, "padding"}, BadField{36, 3, 4, "blocks of a part"},
                    BadField{40, 999, 8, "payload length"}, BadField{40, ~0ULL, 8, "payload length"},
                    BadField{96, 1, 1, "the key is not"}, BadField{112, 1, 1, "the key is not"},
                    BadField{128, 0xffffffff, 4, "token id"}, BadField{128, 9, 4, "the key is not"},
                    BadField{140, 0x80000000, 4, "group"}, BadField{144, 0x80000000, 4, "first block"},
                    BadField{144, 0x7fffffff, 4, "blocks of a part"}, BadField{148, 0, 4, "blocks of a part"},
                    BadField{148, 0x80000000, 4, "blocks of a part"}, BadField{4095, 1, 1, "padding"}));

TEST_P(DiskFormatFieldTest, IsRefusedAlthoughTheChecksumIsRight) {
  const FileHeader header = example(3);
  Bytes bytes = encode_header(header);
  put(bytes, GetParam().offset, GetParam().value, GetParam().size);
  put_checksum(bytes);
  const auto read = decode_header(bytes, file_bytes(header));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kCorruptFile);
  EXPECT_THAT(read.error().message, testing::HasSubstr(GetParam().message));
}

TEST(DiskFormatTest, OnlyNamesOfOursAreParsed) {
  const ContentKey some = run_key({}, Tokens{1});
  for (const StoredKind kind : {StoredKind::kRun, StoredKind::kSnapshot}) {
    const auto parsed = parse_file_name(file_name(kind, some));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->kind, kind);
    EXPECT_EQ(parsed->key, some);
  }
  const std::string digits = "00112233445566778899aabbccddeeff";
  EXPECT_EQ(file_name(StoredKind::kRun, key(digits)), "run-" + digits + ".kv");
  EXPECT_EQ(file_name(StoredKind::kSnapshot, key(digits)), "snapshot-" + digits + ".kv");
  const std::vector<std::string> others = {"",
                                           "run-" + digits,
                                           "run-" + digits + ".kv.tmp",
                                           "run-0" + digits + ".kv",
                                           "RUN-" + digits + ".kv",
                                           "run-00112233445566778899AABBCCDDEEFF.kv",
                                           "run-" + digits.substr(1) + ".kv",
                                           "../run-" + digits + ".kv",
                                           "run-" + digits + ".kw",
                                           "runs" + digits + ".kv",
                                           "snapshot-" + digits + "kv.",
                                           "notes.txt"};
  for (const std::string& name : others) {
    EXPECT_FALSE(parse_file_name(name)) << name;
  }
}

TEST(DiskFormatTest, OnlyFoldersOfOursAreKnown) {
  EXPECT_EQ(folder_name(kFingerprint), "aaaaaaaaaaaaaaaa");
  EXPECT_TRUE(is_folder_name("0123456789abcdef"));
  for (const char* name : {"", ".", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0123456789abcdeg"}) {
    EXPECT_FALSE(is_folder_name(name)) << name;
  }
}

}  // namespace
}  // namespace redpoll::cache
