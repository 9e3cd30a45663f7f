#include "libs/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "libs/testing/files.h"

namespace callboard::base {
namespace {

bool IsOpen(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

TEST(DescriptorTest, ClosesWhatItOwns) {
  Descriptor first(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Descriptor second(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int first_number = first.get();
  const int second_number = second.get();
  second = std::move(first);
  EXPECT_TRUE(IsOpen(first_number));
  EXPECT_FALSE(IsOpen(second_number));
  { const Descriptor third = std::move(second); }
  EXPECT_FALSE(IsOpen(first_number));
  EXPECT_FALSE(second.is_open());
}

TEST(DescriptorTest, WriteAllWritesEverythingOrFails) {
  const std::string path = test::NewFolder() / "file";
  const std::string text(3'000'000, 'x');
  EXPECT_TRUE(WriteAll(Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), text));
  EXPECT_FALSE(WriteAll(Descriptor(open("/dev/full", O_WRONLY | O_CLOEXEC)), "x"));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(SystemError("write").message(), "cannot write: No space left on device");
}

TEST(DescriptorTest, NullTerminatedPointersEndWithNull) {
  const std::vector<std::string> texts = {"a", "b"};
  const std::vector<char*> pointers = NullTerminatedPointers(texts);
  ASSERT_EQ(pointers.size(), 3u);
  EXPECT_STREQ(pointers[1], "b");
  EXPECT_EQ(pointers[2], nullptr);
}

}  // namespace
}  // namespace callboard::base
