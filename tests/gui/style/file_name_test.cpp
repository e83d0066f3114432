#include "gui/style/file_name.h"

#include "base/error.h"
#include "gui/style/save_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <QDir>
#include <QFileInfo>
#include <QTemporaryDir>

#include <filesystem>
#include <fstream>
#include <string>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

std::string refusalOf(const auto& call) {
    try {
        call();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(FileName, IsRefusedAsTextIfItIsNotUtf8) {
    EXPECT_EQ(textOfPath("/tmp/Größe.sqlite").toStdString(), "/tmp/Größe.sqlite");
    EXPECT_EQ(textOfPath("a\xef\xbf\xbd.sqlite").toStdString(), "a\xef\xbf\xbd.sqlite") << "the character itself";
    for (const char* name : {"a\xff.sqlite", "\xc3.sqlite", "\xed\xa0\x80", "\xc0\xaf"}) {
        EXPECT_THAT(refusalOf([&] { textOfPath(name); }), AllOf(HasSubstr("\\x"), HasSubstr("is not UTF-8")));
    }
}

class FileNameOnDisk : public testing::Test {
protected:
    /// Qt cannot remove a file whose name is no text.
    ~FileNameOnDisk() override {
        for (const auto& each : std::filesystem::directory_iterator(folder())) {
            std::filesystem::remove_all(each);
        }
    }
    void make(const std::string& name) { std::ofstream(folder() / name) << "x"; }
    std::filesystem::path folder() const { return folder_.path().toStdString(); }
    /// As a dialog lists it.
    QString shown(const std::string& name) const { return QDir(folder_.path()).filePath(QString::fromStdString(name)); }

    QTemporaryDir folder_;
};

TEST_F(FileNameOnDisk, IsRefusedIfAnotherOneLooksTheSame) {
    const QString text = shown("a\xff.sqlite");
    ASSERT_TRUE(text.contains(QChar(QChar::ReplacementCharacter)));
    EXPECT_EQ(pathOf(text).filename().string(), "a\xef\xbf\xbd.sqlite") << "nothing looks like it";
    make("a\xef\xbf\xbd.sqlite");
    EXPECT_EQ(pathOf(text).filename().string(), "a\xef\xbf\xbd.sqlite");
    make("a\xff.sqlite");
    EXPECT_THAT(refusalOf([&] { pathOf(text); }), AllOf(HasSubstr("a\\xff.sqlite"), HasSubstr("is not UTF-8")));
    make("b.sqlite");
    EXPECT_EQ(pathOf(shown("b.sqlite")).filename().string(), "b.sqlite");
}

TEST_F(FileNameOnDisk, IsRefusedInAFolderToo) {
    std::filesystem::create_directory(folder() / "runs\xfe\xff");
    make("runs\xfe\xff/a.sqlite");
    EXPECT_THAT(refusalOf([&] { pathOf(shown("runs\xfe\xff/a.sqlite")); }), HasSubstr("runs\\xfe\\xff"));
}

TEST_F(FileNameOnDisk, IsNotReplacedByAFileThatLooksTheSame) {
    make("a\xff.csv");
    EXPECT_THAT(refusalOf([&] { saveFile(shown("a\xff.csv"), "y"); }), HasSubstr("a\\xff.csv"));
    EXPECT_FALSE(QFileInfo::exists(shown("a\xff.csv")));
}
}  // namespace
}  // namespace pipescope
