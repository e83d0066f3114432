#include "gui/document/document_loader.h"
#include "profiler/profile/profile_file.h"
#include "tests/gui/sample_trace.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
/// A sample run of four steps, written step by step.
class GrowingTraceTest : public testing::Test {
protected:
    GrowingTraceTest() : path_(temporaryPath("growing.sqlite")), timeline_(sampleTimeline(run_)) {
        writer_.emplace(path_, IfExists::replace);
        writer_->set_lanes(timeline_.lanes);
        writer_->set_run("configuration", to_json(sampleOptions(run_)));
        writer_->set_profile(to_json(sampleProfile(run_)));
        writer_->commit();
    }
    void record(std::int32_t step) {
        for (const Slice& slice : timeline_.slices) {
            if (slice.key.step == step) {
                writer_->add_task(slice, Source::measured);
                MemorySample sample;
                sample.lane = slice.lane;
                sample.time = slice.end;
                sample.allocated = 1000 + step;
                sample.peak = 2000 + step;
                writer_->add_memory(sample);
            }
        }
        writer_->commit();
    }
    QString path() const { return QString::fromStdString(path_.string()); }
    std::size_t perStep() const { return timeline_.slices.size() / static_cast<std::size_t>(run_.steps); }

    SampleRun run_{.steps = 4};
    std::filesystem::path path_;
    Timeline timeline_;
    std::optional<TraceWriter> writer_;
};

TEST_F(GrowingTraceTest, GivesWhatReadingTheFileAnewGives) {
    GrowingTrace growing(path());
    EXPECT_FALSE(growing.next()->measured);  // only the simulated side so far
    for (std::int32_t step = 0; step < run_.steps; ++step) {
        record(step);
        const auto document = growing.next();
        const auto anew = loadTrace(path());
        ASSERT_TRUE(document->measured);
        EXPECT_TRUE(document->complete);
        ASSERT_EQ(document->measured->numSlices(), perStep() * static_cast<std::size_t>(step + 1));
        ASSERT_EQ(document->measured->rows().size(), anew->measured->rows().size());
        for (std::size_t row = 0; row < anew->measured->rows().size(); ++row) {
            EXPECT_EQ(document->measured->rows()[row].start, anew->measured->rows()[row].start);
            EXPECT_EQ(document->measured->rows()[row].key, anew->measured->rows()[row].key);
        }
        ASSERT_TRUE(document->comparison && anew->comparison);
        EXPECT_EQ(document->comparison->measured_step_time, anew->comparison->measured_step_time);
        ASSERT_EQ(document->measuredMemory->size(), anew->measuredMemory->size());
        for (std::size_t lane = 0; lane < anew->measuredMemory->size(); ++lane) {
            EXPECT_EQ((*document->measuredMemory)[lane].size(), (*anew->measuredMemory)[lane].size());
            EXPECT_EQ((*document->measuredMemory)[lane].highest(), (*anew->measuredMemory)[lane].highest());
        }
        EXPECT_EQ(document->messages(), anew->messages());
    }
}

TEST_F(GrowingTraceTest, ReadsNothingTwice) {
    GrowingTrace growing(path());
    record(0);
    EXPECT_EQ(growing.next()->measured->numSlices(), perStep());
    // Data that was already read is no longer needed.
    writer_->change([](SQLite::Database& db) { db.exec("DELETE FROM PIPESCOPE_TASK; DELETE FROM PIPESCOPE_MEMORY"); });
    record(1);
    record(2);
    writer_->change([&](SQLite::Database& db) {  // as the numbers of rows would be, had nothing been deleted
        db.exec("UPDATE PIPESCOPE_TASK SET id = id + 1000000; UPDATE PIPESCOPE_MEMORY SET rowid = rowid + 1000000");
    });
    writer_->commit();
    const auto document = growing.next();
    EXPECT_EQ(document->measured->numSlices(), 3 * perStep());
    EXPECT_NE(document->measured->step(0), nullptr);
    std::size_t samples = 0;
    for (const MemoryTrack& track : *document->measuredMemory) {
        samples += track.size();
    }
    EXPECT_EQ(samples, 3 * perStep());
}

TEST_F(GrowingTraceTest, BeginsAnewWhenLanesGetTheirNames) {
    GrowingTrace growing(path());
    record(0);
    growing.next();
    std::vector<LaneInfo> named = timeline_.lanes;
    named.front().name = "first";
    writer_->set_lanes(named);
    record(1);
    const auto document = growing.next();
    EXPECT_EQ(document->measured->lanes().front().name, "first");
    EXPECT_EQ(document->measured->numSlices(), 2 * perStep());
}

TEST_F(GrowingTraceTest, SaysWhatIsWrongAndRecovers) {
    GrowingTrace nothing(QString::fromStdString(temporaryPath("no_such_growing.sqlite").string()));
    EXPECT_THROW(nothing.next(), Error);
    record(0);
    GrowingTrace growing(path());
    EXPECT_EQ(growing.next()->measured->numSlices(), perStep());
}

TEST_F(GrowingTraceTest, KeepsTheWarningsOfRangesThatAreNotReadAgain) {
    constexpr int kSlowToRead = 200'000;  // ranges, more than are read every time
    writer_->add_diagnostic({"warning", "cupti", "the buffer was full"});
    for (int k = 0; k < kSlowToRead; ++k) {
        NvtxRecord range;
        range.text = "read a batch";
        range.start = 10 * k;
        range.end = range.start + 9;
        range.global_tid = 9;
        writer_->add_range(range);
    }
    record(0);
    GrowingTrace growing(path());
    const QString warning = QStringLiteral("cupti: the buffer was full");
    for (int k = 1; k < 4; ++k) {
        EXPECT_EQ(growing.next()->messages().count(warning), 1) << k;
        record(k);
    }
}
}  // namespace
}  // namespace pipescope
