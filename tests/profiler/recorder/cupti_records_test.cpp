#include "profiler/recorder/cupti_records.h"

#include "cupti_record.h"
#include "tests/temporary_folder.h"
#include "trace/store/cupti_rows.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <string>

namespace pipescope {
namespace {
constexpr std::int64_t kOrigin = 1000;

/// Each buffer here has one record.
CUptiResult CUPTIAPI next_only_record(std::uint8_t* buffer, std::size_t, CUpti_Activity** record) {
    if (*record != nullptr) {
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    }
    *record = reinterpret_cast<CUpti_Activity*>(buffer);
    return CUPTI_SUCCESS;
}

template <class Record>
Record spanning(CUpti_ActivityKind kind) {
    auto record = make_record<Record>(kind);
    record.start = kOrigin + 100;
    record.end = kOrigin + 130;
    record.deviceId = 2;
    record.contextId = 1;
    record.streamId = 13;
    record.correlationId = 5;
    return record;
}

/// Writes records one by one into a trace.
class CuptiRecordsTest : public testing::Test {
protected:
    CuptiRecordsTest() { functions_.next_record = next_only_record; }
    template <class Record>
    void write(Record record) {
        records_.write(reinterpret_cast<std::uint8_t*>(&record), sizeof(record), rows_);
    }
    /// Result of a query, after closing the trace.
    std::string text(const std::string& sql) {
        rows_.finish();
        writer_.close();
        return SQLite::Database(folder_ / "t.sqlite").execAndGet(sql).getString();
    }

    const TemporaryFolder folder_;
    CuptiFunctions functions_;
    TraceWriter writer_{folder_ / "t.sqlite", IfExists::refuse};
    CuptiRows rows_{writer_, 7};
    CuptiRecords records_{functions_, kOrigin, false};
};

TEST_F(CuptiRecordsTest, KeepAGraphThatCuptiTellsAsOne) {
    auto graph = spanning<CUpti_ActivityGraphTrace2>(CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
    graph.graphId = 42;
    write(graph);
    graph.end = 0;  // still runs
    write(graph);
    EXPECT_EQ(records_.incomplete(), 1);
    EXPECT_EQ(
        text("SELECT group_concat(start || ' ' || end || ' ' || deviceId || ' ' || contextId || ' ' || streamId || "
             "' ' || correlationId || ' ' || graphId) FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE"),
        "100 130 2 1 13 5 42");
}

TEST_F(CuptiRecordsTest, TakeKernelsThatRanOneByOneForKernels) {
    auto kernel = spanning<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_KERNEL);
    kernel.name = "_Z4nodev";
    write(kernel);
    EXPECT_EQ(text("SELECT group_concat(start || ' ' || end || ' ' || value) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN "
                   "StringIds ON id = shortName"),
              "100 130 node");
}

TEST_F(CuptiRecordsTest, CountKindsTheyDoNotKnow) {
    write(make_record<CUpti_ActivityName>(CUPTI_ACTIVITY_KIND_NAME));
    EXPECT_EQ(records_.unknown(), 1);
    EXPECT_EQ(rows_.rows(), 0);
}
}  // namespace
}  // namespace pipescope
