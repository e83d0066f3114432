#include "trace/store/trace_parts.h"

#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/store/trace_reader.h"
#include "trace/store/trace_records.h"
#include "trace/store/trace_writer.h"

#include <gmock/gmock.h>

#include <optional>

namespace pipescope {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::Eq;
using testing::HasSubstr;
using testing::Optional;

void make_trace(const fs::path& path) {
    TraceWriter(path, IfExists::refuse).close();
}

TEST(TraceParts, AFileIsAPartOfAnExistingDatabaseByItsName) {
    const TemporaryFolder folder;
    make_trace(folder / "t.sqlite");
    write_text(folder / "p.json", "{}");
    for (const std::string_view ending : kDatabaseParts) {
        EXPECT_THAT(whole_of_part(beside(folder / "t.sqlite", ending)), Optional(Eq(folder / "t.sqlite"))) << ending;
        EXPECT_EQ(whole_of_part(beside(folder / "p.json", ending)), std::nullopt) << "no database: " << ending;
        EXPECT_EQ(whole_of_part(beside(folder / "none.sqlite", ending)), std::nullopt) << ending;
        EXPECT_EQ(whole_of_part(folder / ending), std::nullopt) << "an ending alone";
    }
    for (const char* viewed : {"t.sqlite", "p.json"}) {
        EXPECT_THAT(whole_of_part(beside(folder / viewed, kNotesEnding)), Optional(Eq(folder / viewed)));
    }
    EXPECT_EQ(whole_of_part(folder / "none.notes.json"), std::nullopt);
    EXPECT_EQ(whole_of_part(folder / "t.sqlite"), std::nullopt);
}

TEST(TraceParts, ANewTraceNeverGetsTheNameOfAPart) {
    const TemporaryFolder folder;
    make_trace(folder / "t.sqlite");
    for (const IfExists if_exists : {IfExists::refuse, IfExists::replace}) {
        EXPECT_THAT(thrown<TraceError>([&] { TraceWriter(folder / "t.sqlite-wal", if_exists); }),
                    HasSubstr("t.sqlite-wal is by its name a part of "));
    }
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(TraceParts, OfARunWhoseTraceWasMovedStayUnlessAllMayBeReplaced) {
    for (const std::string_view ending : kDatabaseParts) {
        const TemporaryFolder folder;
        const fs::path part = beside(folder / "t.sqlite", ending);
        write_text(part, "last steps");
        EXPECT_THAT(thrown<TraceError>([&] { make_trace(folder / "t.sqlite"); }),
                    AllOf(HasSubstr(part.string() + " exists without the trace "), HasSubstr("--force")));
        EXPECT_EQ(read_text(part), "last steps");
        EXPECT_FALSE(fs::exists(folder / "t.sqlite"));
        TraceWriter(folder / "t.sqlite", IfExists::replace).close();
        EXPECT_FALSE(fs::exists(part)) << "SQLite would replay it";
        EXPECT_EQ(TraceReader(folder / "t.sqlite").run().at("closed"), "true");
    }
}

TEST(TraceNames, ThatSqliteTakesForSomethingElseAreThoseOfFiles) {
    const TemporaryFolder folder;
    const fs::path before = fs::current_path();
    fs::current_path(folder.path());
    write_text("x.sqlite", "not a trace");
    for (const char* name : {"file:x.sqlite", "file:x.sqlite?mode=memory", ":memory:"}) {
        make_trace(name);
        EXPECT_TRUE(fs::is_regular_file(folder / name)) << name;
        EXPECT_EQ(TraceReader(name).run().at("closed"), "true") << name;
        EXPECT_EQ(recover_trace(name).was_open, false) << name;
    }
    EXPECT_EQ(read_text("x.sqlite"), "not a trace");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 4) << "nothing else was made";
    fs::current_path(before);
}
}  // namespace
}  // namespace pipescope
