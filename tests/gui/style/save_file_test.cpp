#include "gui/style/save_file.h"

#include "base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QTemporaryDir>
#include <QXmlStreamReader>

#include <csignal>
#include <utility>

namespace pipescope {
namespace {
/// Lets files grow to that many bytes only, as a disk does that fills up: the write that reaches it is cut, the next
/// fails.
class SmallFiles {
public:
    explicit SmallFiles(rlim_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit small{bytes, before_.rlim_max};
        ::setrlimit(RLIMIT_FSIZE, &small);
        handler_ = std::signal(SIGXFSZ, SIG_IGN);
    }
    ~SmallFiles() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }
    SmallFiles(const SmallFiles&) = delete;
    SmallFiles& operator=(const SmallFiles&) = delete;

private:
    rlimit before_{};
    void (*handler_)(int) = SIG_DFL;
};

TEST(SaveFile, SaysWhyADiskTakesNoMore) {
    const QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("page.html"));
    saveFile(path, "before");
    std::string why;
    {
        const SmallFiles full(1 << 16);
        try {
            saveFile(path, QByteArray(1 << 20, 'x'));
        } catch (const Error& error) {
            why = error.what();
        }
    }
    EXPECT_THAT(why, testing::HasSubstr("File too large"));
    QFile file(path);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    EXPECT_EQ(file.readAll(), "before") << "the file that it should replace stays";
}

TEST(SaveFile, ReplacesALinkAndKeepsItsTarget) {
    const QTemporaryDir folder;
    const QString path = folder.filePath(QStringLiteral("page.html"));
    const QString target = folder.filePath(QStringLiteral("target"));
    saveFile(target, "precious");
    ASSERT_TRUE(QFile::link(target, path));
    saveFile(path, "page");
    EXPECT_FALSE(QFileInfo(path).isSymLink());
    for (const auto& [name, text] : {std::pair(target, "precious"), std::pair(path, "page")}) {
        QFile file(name);
        ASSERT_TRUE(file.open(QIODevice::ReadOnly));
        EXPECT_EQ(file.readAll(), text);
    }
    EXPECT_EQ(QDir(folder.path()).entryList(QDir::Files).size(), 2);
}

TEST(SaveFile, MarkupHoldsNoCharacterThatXmlForbids) {
    const QByteArray all = wellFormed("<a>\x01 \x1b[31m \x7f \xef\xbf\xbe \xc2\x85 \xc3\xa4\t\r\n</a>");
    EXPECT_EQ(all, "<a>\xef\xbf\xbd \xef\xbf\xbd[31m \xef\xbf\xbd \xef\xbf\xbd \xc2\x85 \xc3\xa4\t\r\n</a>");
    QXmlStreamReader reader(all);
    while (!reader.atEnd()) {
        reader.readNext();
    }
    EXPECT_FALSE(reader.hasError()) << reader.errorString().toStdString();
}
}  // namespace
}  // namespace pipescope
