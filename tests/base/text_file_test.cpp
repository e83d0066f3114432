// Texts that users name: whole, from a file or a pipe, and never more than the limit.

#include "base/text_file.h"

#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <thread>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

const TextFile kText{"a text", "make one", TextFile::Kind::file_or_pipe, 200'000};
const TextFile kOwnText{"a text", "make one", TextFile::Kind::file, 200'000};

std::string refused(const std::filesystem::path& path, const TextFile& file = kText) {
    return thrown<Error>([&] { read_text_file(path, file); });
}

TEST(TextFile, IsReadWhole) {
    const TemporaryFolder folder;
    const std::string text = std::string(200'000, 'x');
    write_text(folder / "a", text);
    EXPECT_EQ(read_text_file(folder / "a", kText), text);
    EXPECT_EQ(read_text_file(folder / "a", kOwnText), text);
}

TEST(TextFile, HoldsNoByteThatIs0) {
    const TemporaryFolder folder;
    write_text(folder / "a", std::string("{}\0{}", 5));
    EXPECT_THAT(refused(folder / "a"), HasSubstr("a: byte 3 is 0"));
}

TEST(TextFile, MayComeFromAPipeWhoseWriterComesLate) {
    const TemporaryFolder folder;
    const std::string text(150'000, 'x');  // more than a pipe holds
    ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
    std::thread writer([&] { write_text(folder / "pipe", text); });
    EXPECT_EQ(read_text_file(folder / "pipe", kText), text);
    writer.join();
}

TEST(TextFile, MayComeFromAPipeWhoseWriterIsGone) {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    ASSERT_EQ(write(ends[1], "abc", 3), 3);
    close(ends[1]);
    EXPECT_EQ(read_text_file("/dev/fd/" + std::to_string(ends[0]), kText), "abc");
    close(ends[0]);
}

TEST(TextFile, OfOursIsNoPipeThatNobodyWrites) {
    const TemporaryFolder folder;
    ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
    EXPECT_THAT(refused(folder / "pipe", kOwnText),
                AllOf(HasSubstr("pipe: is no regular file"), HasSubstr("make one")));
}

TEST(TextFile, IsNoDeviceNorFolder) {
    const TemporaryFolder folder;
    std::filesystem::create_symlink("/dev/zero", folder / "link");
    for (const TextFile& file : {kText, kOwnText}) {
        EXPECT_THAT(refused("/dev/zero", file), HasSubstr("/dev/zero: is "));
        EXPECT_THAT(refused(folder / "link", file), HasSubstr("link: is "));
        EXPECT_THAT(refused(folder.path(), file), HasSubstr("is a directory"));
        EXPECT_THAT(refused(folder / "none", file), HasSubstr("none"));
    }
    EXPECT_THAT(refused("/dev/zero"), HasSubstr("is a device"));
    EXPECT_THAT(refused(""), HasSubstr("'': cannot be opened"));
}

TEST(TextFile, IsNeitherEmptyNorTooLarge) {
    const TemporaryFolder folder;
    write_text(folder / "empty", "");
    write_text(folder / "large", std::string(200'001, 'x'));
    EXPECT_THAT(refused(folder / "empty"), HasSubstr("is empty"));
    EXPECT_THAT(refused(folder / "large"), HasSubstr("200000 bytes"));
}

// The limit holds for what says nothing about its size, too.
TEST(TextFile, OfAnEndlessPipeEndsAtTheLimit) {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    std::thread writer([&] {
        const std::string piece(4096, 'x');
        for (int k = 0; k < 60 && write(ends[1], piece.data(), piece.size()) > 0; ++k) {
        }
        close(ends[1]);
    });
    EXPECT_THAT(refused("/dev/fd/" + std::to_string(ends[0])), HasSubstr("is larger than 200000 bytes"));
    for (std::array<char, 4096> rest{}; read(ends[0], rest.data(), rest.size()) > 0;) {
    }
    writer.join();
    close(ends[0]);
}

class OtherError : public Error {
public:
    using Error::Error;
};

TEST(TextFile, IsRefusedWithTheErrorOfItsReader) {
    EXPECT_THAT(thrown<OtherError>([] { read_text_as<OtherError>("/dev/zero", kText); }), HasSubstr("is a device"));
}
}  // namespace
}  // namespace pipescope
