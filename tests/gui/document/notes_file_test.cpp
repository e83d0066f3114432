#include "gui/document/notes_file.h"

#include "base/error.h"
#include "tests/gui/sample_trace.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <QDir>
#include <QFile>
#include <QFileInfo>

#include <filesystem>

namespace pipescope {
namespace {
class NotesFile : public testing::Test {
protected:
    void put(const QByteArray& text) {
        QFile file(notesPathOf(trace_));
        ASSERT_TRUE(file.open(QIODevice::WriteOnly | QIODevice::Truncate));
        file.write(text);
    }
    QByteArray present() {
        QFile file(notesPathOf(trace_));
        return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    }

    const QString trace_ = QString::fromStdString(
        temporaryPath(std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) + ".sqlite").string());
    const std::vector<TimeMark> notes_{{100, QStringLiteral("slow \"link\" – again"), 50},
                                       {400, QStringLiteral("b"), 1}};
};

TEST_F(NotesFile, IsReadAsItWasWritten) {
    EXPECT_TRUE(readNotes(trace_).empty());
    writeNotes(trace_, notes_);
    EXPECT_EQ(readNotes(trace_), notes_);
    EXPECT_TRUE(present().contains("\"format\": \"pipescope.notes\""));
    EXPECT_FALSE(QFile::exists(trace_)) << "the trace is never written";
}

TEST_F(NotesFile, HoldsTracksBesideNotes) {
    const std::vector<QueryTrack> tracks{{QStringLiteral("late"), QStringLiteral("SELECT start, end, 'x' AS name")}};
    writeNotes(trace_, notes_);
    EXPECT_TRUE(readTracks(trace_).empty());
    EXPECT_FALSE(present().contains("tracks")) << "as files of earlier versions";
    writeTracks(trace_, tracks);
    EXPECT_EQ(readNotes(trace_), notes_);
    writeNotes(trace_, {});
    EXPECT_EQ(readTracks(trace_), tracks);
    writeTracks(trace_, {});
    EXPECT_FALSE(QFile::exists(notesPathOf(trace_)));
}

TEST_F(NotesFile, GoesWithItsLastNote) {
    writeNotes(trace_, notes_);
    writeNotes(trace_, {});
    EXPECT_FALSE(QFile::exists(notesPathOf(trace_)));
}

// As in an archive of somebody else: reading it would take all memory, or wait without end.
TEST_F(NotesFile, IsNoDeviceNorPipe) {
    const std::string path = notesPathOf(trace_).toStdString();
    std::filesystem::create_symlink("/dev/zero", path);
    EXPECT_THAT(thrown<Error>([&] { readNotes(trace_); }), testing::HasSubstr("notes.json: is no regular file"));
    EXPECT_THAT(thrown<Error>([&] { writeNotes(trace_, notes_); }), testing::HasSubstr("move it away"));
    EXPECT_TRUE(std::filesystem::is_symlink(path));
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT(thrown<Error>([&] { readNotes(trace_); }), testing::HasSubstr("notes.json: is no regular file"));
}

TEST_F(NotesFile, IsKeptIfItIsDamagedForeignOrOfALaterVersion) {
    for (const QByteArray& text :
         {QByteArray("{\"format\": \"pipescope.notes\", \"vers"), QByteArray("[1, 2]"), QByteArray("{\"todo\": []}"),
          QByteArray("{\"format\": 3, \"version\": 1}"),
          QByteArray("{\"format\": \"pipescope.notes\", \"version\": 2, \"notes\": []}"),
          QByteArray("{\"format\": \"pipescope.notes\", \"version\": 1}"),
          QByteArray("{\"format\": \"pipescope.notes\", \"version\": 1, \"notes\": [{\"start_ns\": " +
                     QByteArray(300'000, '[') + QByteArray(300'000, ']') + "}]}"),
          QByteArray("{\"format\": \"pipescope.notes\", \"version\": 1, \"notes\": [{\"start_ns\": 1.5, \"end_ns\": 5, "
                     "\"text\": \"\"}]}"),
          QByteArray("{\"format\": \"pipescope.notes\", \"version\": 1, \"notes\": [{\"start_ns\": 5, \"end_ns\": 5, "
                     "\"text\": \"\"}]}"),
          // Their lengths are beyond 64 bits, or the times are.
          QByteArray(
              "{\"format\": \"pipescope.notes\", \"version\": 1, \"notes\": [{\"start_ns\": -4611686018427387904, "
              "\"end_ns\": 4611686018427387904, \"text\": \"\"}]}"),
          QByteArray("{\"format\": \"pipescope.notes\", \"version\": 1, \"notes\": [{\"start_ns\": 5, "
                     "\"end_ns\": 9223372036854775809, \"text\": \"\"}]}")}) {
        put(text);
        EXPECT_THROW(readNotes(trace_), Error) << text.toStdString();
        try {
            writeNotes(trace_, notes_);
            FAIL() << text.toStdString();
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("notes.json"));
            EXPECT_THAT(error.what(), testing::HasSubstr("kept as it is"));
            EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("json.exception")));
        }
        EXPECT_EQ(present(), text);
    }
}
}  // namespace
}  // namespace pipescope
