#include "base/npy.h"

#include <gtest/gtest.h>

namespace stitch {
namespace {

NpyArray array_of(std::string type, std::vector<std::int64_t> shape, std::size_t bytes) {
  NpyArray array;
  array.type = std::move(type);
  array.shape = std::move(shape);
  for (std::size_t i = 0; i < bytes; ++i) array.data += static_cast<char>(i * 7);
  return array;
}

/// A file as numpy.save writes it, with a header of the test's own.
std::string file_of(std::string header, std::string_view data) {
  header += '\n';
  std::string file("\x93NUMPY\x01", 7);
  file += '\0';
  file += static_cast<char>(header.size());
  file += '\0';
  return file + header + std::string(data);
}

TEST(Npy, WhatIsWrittenIsReadAgain) {
  for (const NpyArray& array : {array_of("f4", {2, 3}, 24), array_of("i8", {}, 8), array_of("b1", {5}, 5),
                                array_of("V2", {4, 1, 2}, 16), array_of("f8", {0, 3}, 0)}) {
    const std::string file = encode_npy(array);
    EXPECT_EQ((file.size() - array.data.size()) % 64, 0U) << "data are aligned, as the format wants";
    const Result<NpyArray> read = parse_npy(file);
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(*read, array);
  }
}

TEST(Npy, ReadsWhatNumpyWrites) {
  // numpy.save of numpy.array([[1, 2]], dtype=numpy.int16), NumPy 2.4.
  const auto read = parse_npy(
      file_of("{'descr': '<i2', 'fortran_order': False, 'shape': (1, 2), }", std::string_view("\1\0\2\0", 4)));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->type, "i2");
  EXPECT_EQ(read->shape, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(read->data, std::string("\1\0\2\0", 4));
}

TEST(Npy, SaysWhatIsWrong) {
  const struct {
    std::string file;
    ErrorKind kind;
    const char* message;
  } cases[] = {
      {"", ErrorKind::parse, "does not begin like one"},
      {"\x93NUMPY\x01", ErrorKind::parse, "cut off in its header"},
      {std::string("\x93NUMPY\x07\0\0\0\0\0", 12), ErrorKind::unsupported, "version 7"},
      {file_of("{'descr': '<f4', 'shape': (1,), }", "1234"), ErrorKind::parse, "lacks descr, fortran_order or shape"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234"), ErrorKind::parse,
       "holds 4 bytes of data, its shape (2) of 'f4' needs 8"},
      {file_of("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "1234"), ErrorKind::unsupported,
       "big-endian"},
      {file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }", "1234"), ErrorKind::unsupported,
       "column-major"},
      {file_of("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "1234"), ErrorKind::unsupported, "'|O'"},
      {file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234"), ErrorKind::unsupported,
       "structures"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "1234"), ErrorKind::parse, "no size"},
      {file_of("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", ""), ErrorKind::parse,
       "too large"},
  };
  for (const auto& wrong : cases) {
    const auto read = parse_npy(wrong.file);
    ASSERT_FALSE(read.ok()) << wrong.message;
    EXPECT_EQ(read.error().kind, wrong.kind) << read.error().message;
    EXPECT_NE(read.error().message.find(wrong.message), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace stitch
