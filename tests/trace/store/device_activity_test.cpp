#include "tests/temporary_folder.h"
#include "tests/trace/device_sample.h"
#include "trace/foreign/chrome_export.h"
#include "trace/open_trace.h"
#include "trace/store/trace_reader.h"
#include "trace/store/trace_writer.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace pipescope {
namespace {
/// A trace of a kernel of a task, a copy, a fill, a whole graph, and a kernel of NCCL with its message.
class DeviceActivities : public testing::Test {
protected:
    DeviceActivities() {
        TraceWriter writer(folder_ / "t.sqlite", IfExists::refuse, WriteLog::in_memory);
        add_device_sample(writer);
        CuptiRows rows(writer, 7);
        KernelRecord kernel;
        kernel.span = {300, 400, 0, 1, 14, 2, 0};
        kernel.demangled_name = kernel.short_name = kernel.mangled_name = "ncclDevKernel_AllGather_RING_LL";
        kernel.grid = {8, 2, 1};
        kernel.block = {64, 1, 1};
        kernel.registers_per_thread = 96;
        kernel.static_shared_memory = 100;
        kernel.dynamic_shared_memory = 20;
        rows.add(kernel);
        writer.change([](SQLite::Database& db) {
            db.exec(
                "INSERT INTO PIPESCOPE_MESSAGE SELECT max(rowid), 'all_gather', 4096, 'Float', '[0, 1]', 2 FROM "
                "CUPTI_ACTIVITY_KIND_KERNEL");
        });
        rows.add(MemcpyRecord{{500, 600, 0, 1, 13, 3, 0}, 1000, 1, 2, 3});
        rows.add(MemsetRecord{{600, 650, 0, 1, 13, 4, 0}, 0, 64});
        rows.add(GraphRecord{{700, 900, 0, 1, 13, 5, 0}, 6});
        rows.finish();
        writer.close();
    }

    const TemporaryFolder folder_;
};

TEST_F(DeviceActivities, AreThoseOfTheTracksWithTasksAndFacts) {
    std::vector<std::string> found;
    TraceReader(folder_ / "t.sqlite").for_each_device_activity([&](const DeviceActivity& work) {
        found.push_back(std::string(work.activity) + ' ' + std::string(work.name) + (work.task ? " of a task" : ""));
        EXPECT_TRUE(work.stream.starts_with("GPU 0, stream 1")) << work.stream;
        ASSERT_NE(work.facts, nullptr);
        EXPECT_EQ(work.facts->bytes, work.activity == "memcpy"              ? 1000
                                     : work.activity == "memset"            ? 64
                                     : !work.facts->collective.type.empty() ? 4096
                                                                            : 0);
    });
    EXPECT_EQ(found, (std::vector<std::string>{"kernel add(float*) of a task", "kernel ncclDevKernel_AllGather_RING_LL",
                                               "memcpy copy Host-to-Device", "memset fill", "graph graph 6"}));
    std::size_t ranges = 0;
    for (const RangeTrack& track : open_trace(folder_ / "t.sqlite").tracks) {
        ranges += track.kind == RangeTrack::Kind::stream ? track.ranges.size() : 0;
    }
    EXPECT_EQ(ranges, found.size());
}

TEST_F(DeviceActivities, KeepTheirFactsInAChromeTrace) {
    const auto facts_of_nccl = [](const OpenedTrace& trace) {
        for (const RangeTrack& track : trace.tracks) {
            for (const TraceRange& range : track.ranges) {
                if (trace.names.at(range.name).starts_with("nccl")) {
                    return trace.facts.at(range.facts);
                }
            }
        }
        return WorkFacts();
    };
    const OpenedTrace trace = open_trace(folder_ / "t.sqlite");
    const WorkFacts expected{{8, 2, 1}, {64, 1, 1}, 96, 120, 4096, {"all_gather", "Float", "[0, 1]", 2}};
    EXPECT_EQ(facts_of_nccl(trace), expected);
    {
        std::ofstream out(folder_ / "t.json");
        export_chrome(trace, out);
    }
    EXPECT_EQ(facts_of_nccl(open_trace(folder_ / "t.json")), expected);
}

TEST(Collectives, AreNamedByTheProfilerOrTheirKernels) {
    EXPECT_EQ(collective_type("_allgather_base"), "all_gather");
    EXPECT_EQ(collective_type("reduce_scatter_tensor_coalesced"), "reduce_scatter");
    EXPECT_EQ(collective_type("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"), "reduce_scatter");
    EXPECT_EQ(collective_type("ncclKernel_AllReduce_RING_LL_Sum_float"), "all_reduce");
    EXPECT_EQ(collective_type("recv"), "receive");
    EXPECT_EQ(collective_type("ncclDevKernel_SendRecv"), "") << "it may be an all-to-all";
    EXPECT_EQ(collective_type("gemm"), "");
}

TEST(Collectives, LoadTheBusAsInNcclsTests) {
    EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 4), 1.5);
    EXPECT_DOUBLE_EQ(bus_factor("all_gather", 4), 0.75);
    EXPECT_DOUBLE_EQ(bus_factor("reduce_scatter", 2), 0.5);
    EXPECT_DOUBLE_EQ(bus_factor("send", 2), 1);
    EXPECT_DOUBLE_EQ(bus_factor("all_reduce", 0), 0) << "the number of ranks is not known";
}
}  // namespace
}  // namespace pipescope
