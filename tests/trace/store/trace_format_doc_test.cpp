#include "tests/temporary_folder.h"
#include "tests/trace/device_sample.h"
#include "trace/store/process_json.h"
#include "trace/store/trace_schema.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace pipescope {
namespace {
std::vector<std::string> lines_of_the_page() {
    std::ifstream page(PIPESCOPE_DOCS "/trace-format.md");
    std::vector<std::string> lines;
    for (std::string line; std::getline(page, line);) {
        lines.push_back(line);
    }
    return lines;
}

/// The indented blocks of the page.
std::vector<std::string> queries() {
    std::vector<std::string> found;
    bool inside = false;
    for (const std::string& line : lines_of_the_page()) {
        const bool indented = line.starts_with("    ");
        if (indented && !inside) {
            found.emplace_back();
        }
        if (indented) {
            found.back() += line + "\n";
        }
        inside = indented;
    }
    return found;
}

/// Adds rows of every kind that CUPTI reports, except kernels and calls.
void add_rows_of_every_kind(TraceWriter& writer) {
    const DeviceSpan span{100, 200, 0, 1, 13, 5, 0};
    constexpr std::uint64_t kSameEvent = 77;
    CuptiRows rows(writer, 7);
    rows.add(DeviceRecord{.device = 0, .name = "GPU", .uuid = "GPU-1", .total_memory = 1 << 30});
    rows.add(ContextRecord{.context = 1, .device = 0, .null_stream = 7});
    rows.add(StreamRecord{.stream = 13, .context = 1, .priority = 0, .flag = 2});
    rows.add(MemcpyRecord{.span = span, .bytes = 8, .copy_kind = 1, .source_kind = 2, .destination_kind = 3});
    rows.add(MemsetRecord{.span = span, .value = 0, .bytes = 8, .memory_kind = 3});
    rows.add(GraphRecord{.span = span, .graph = 4});
    rows.add(SynchronizationRecord{.span = span, .type = 2, .event = 3, .event_sync = kSameEvent});
    rows.add(CudaEventRecord{.timestamp = 150, .stream = 13, .event = 3, .event_sync = kSameEvent});
    rows.add(DeviceMemoryRecord{.time = 5, .bytes = 64, .memory_kind = 3, .operation = 1});
    rows.add(CuptiOverheadRecord{.start = 1, .end = 2, .thread = 9, .kind = 3});
    rows.finish();
}

TEST(TraceFormatPage, GivesQueriesThatRunOnATrace) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        writer.set_start(1'700'000'000'000'000'000);
        writer.add_process(std::int64_t{7} << 24, 7, "program");
        writer.add_thread_name(std::int64_t{7} << 24 | 9, "worker");
        add_rows_of_every_kind(writer);
        writer.set_profile(R"({"model": "mlp", "layers": [{}, {}]})");
        for (const Source source : {Source::measured, Source::simulated}) {
            writer.add_task({{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{5}, 0}, source);
        }
        for (const TaskKind kind : {TaskKind::backward, TaskKind::backward_weight}) {
            writer.add_task({{0, kind, 0, 0, -1}, LaneId{0}, Nanoseconds{5}, Nanoseconds{9}, 0}, Source::measured);
        }
        writer.add_step({});
        writer.add_memory({LaneId{0}, Nanoseconds{1}, 2, 3, 4, -1});
        writer.add_drop({"nvtx", 1, 2, 0, 0, 0});
        writer.add_clock({1, 2, 3, 4});
        writer.add_diagnostic({"info", "nvtx", "text"});
        NvtxRecord range;
        range.text = "r";
        range.end = 5;
        writer.add_range(range);
        writer.add_overhead({"drain thread", "cpu_ns", 5});
        writer.add_overhead({"drain thread", "rows", 1});
        add_device_sample(writer);
        writer.set_run("processes", to_json(std::vector<MergedProcess>(2)));
        writer.change([](SQLite::Database& db) {
            db.exec(
                "INSERT INTO PIPESCOPE_COPY VALUES (1, 0, 1, 5, 6);"
                "INSERT INTO PIPESCOPE_LANE_WORK VALUES (0, 'collective', 5, 6);"
                "INSERT INTO PIPESCOPE_MESSAGE SELECT min(rowid), 'all_reduce', 1024, 'Float', '[0, 1]', 2 FROM "
                "CUPTI_ACTIVITY_KIND_KERNEL");
        });
        writer.close();
    }
    SQLite::Database db(folder / "t.sqlite");
    db.exec("ATTACH '" + (folder / "t.sqlite").string() + "' AS predicted");
    const auto all = queries();
    std::string text;
    for (const std::string& sql : all) {
        text += sql;
        try {
            SQLite::Statement query(db, sql);
            EXPECT_TRUE(query.executeStep()) << "finds nothing: " << sql;
        } catch (const SQLite::Exception& error) {
            ADD_FAILURE() << error.what() << ": " << sql;
        }
    }
    SQLite::Statement tables(db, "SELECT name FROM main.sqlite_master WHERE type = 'table'");
    while (tables.executeStep()) {
        const std::string name = tables.getColumn(0).getString();
        EXPECT_THAT(text, testing::ContainsRegex("(FROM|JOIN|,) (main\\.)?" + name + "[ ;,\n]")) << "no query asks it";
    }
}

TEST(TraceFormatPage, NamesEveryTableAndEveryColumnOfOurs) {
    const TemporaryFolder folder;
    TraceWriter(folder / "t.sqlite", IfExists::refuse).close();
    std::stringstream page;
    for (const std::string& line : lines_of_the_page()) {
        page << line << "\n";
    }
    SQLite::Database db(folder / "t.sqlite");
    SQLite::Statement tables(db, "SELECT name FROM sqlite_master WHERE type = 'table'");
    while (tables.executeStep()) {
        std::string name = tables.getColumn(0).getString();
        const bool kind = name.starts_with("CUPTI_ACTIVITY_KIND_");  // the page writes the common beginning once
        EXPECT_THAT(page.str(), testing::HasSubstr(kind ? name.substr(19) : name));
    }
    SQLite::Statement columns(db,
                              "SELECT t.name, c.name FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c "
                              "WHERE t.type = 'table' AND t.name LIKE 'PIPESCOPE%'");
    while (columns.executeStep()) {
        EXPECT_THAT(page.str(), testing::HasSubstr(columns.getColumn(1).getString()))
            << columns.getColumn(0).getString();
    }
}
}  // namespace
}  // namespace pipescope
