#include "cli/output_file.h"

#include "schedule/error.h"
#include "tests/temporary_folder.h"

#include <gmock/gmock.h>

#include <ostream>
#include <stdexcept>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(OutputFile, KeepsAnExistingFileUnlessForced) {
    const TemporaryFolder folder;
    write_text(folder / "a.json", "precious");
    EXPECT_THAT([&] { write_output(folder / "a.json", false, "new"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("a.json exists already"), HasSubstr("--force"))));
    EXPECT_EQ(read_text(folder / "a.json"), "precious");
    write_output(folder / "a.json", true, "new");
    EXPECT_EQ(read_text(folder / "a.json"), "new");
}

TEST(OutputFile, AFailedWriteLeavesWhatWasThereAndNothingElse) {
    const TemporaryFolder folder;
    write_text(folder / "a.json", "precious");
    EXPECT_THROW(write_output(folder / "a.json", true,
                              [](std::ostream& out) {
                                  out << "half";
                                  throw std::runtime_error("no more");
                              }),
                 std::runtime_error);
    EXPECT_EQ(read_text(folder / "a.json"), "precious");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(OutputFile, RefusesAFolderAndAMissingFolder) {
    const TemporaryFolder folder;
    EXPECT_THAT([&] { check_output(folder.path(), true); }, ThrowsMessage<Error>(HasSubstr("is a folder")));
    EXPECT_THAT([&] { check_output(folder / "none/a.json", false); },
                ThrowsMessage<Error>(AllOf(HasSubstr("does not exist"), HasSubstr("make it first"))));
}
}  // namespace
}  // namespace pipescope
