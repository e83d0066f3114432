#include "python/src/core/core_module.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <string>

namespace pipescope {
namespace {
namespace py = pybind11;

/// The field of each row as 64-bit integers in the machine's byte order.
template <class Row, class Field>
py::bytes column(const std::vector<Row>& rows, Field field) {
    std::string bytes(rows.size() * sizeof(std::int64_t), '\0');
    auto* values = reinterpret_cast<std::int64_t*>(bytes.data());
    for (const Row& row : rows) {
        *values++ = static_cast<std::int64_t>(field(row));
    }
    return py::bytes(bytes);
}
}  // namespace

py::dict timeline_columns(const Timeline& timeline) {
    py::dict columns;
    columns["source"] = std::string(to_string(timeline.source));
    py::list lanes;
    for (const LaneInfo& lane : timeline.lanes) {
        lanes.append(py::make_tuple(lane.name, lane.device));
    }
    columns["lanes"] = lanes;
    const std::vector<Slice>& slices = timeline.slices;
    columns["kind"] = column(slices, [](const Slice& each) { return each.key.kind; });
    columns["step"] = column(slices, [](const Slice& each) { return each.key.step; });
    columns["partition"] = column(slices, [](const Slice& each) { return each.key.partition; });
    columns["micro_batch"] = column(slices, [](const Slice& each) { return each.key.micro_batch; });
    columns["lane"] = column(slices, [](const Slice& each) { return each.lane.value(); });
    columns["start_ns"] = column(slices, [](const Slice& each) { return each.start.count(); });
    columns["end_ns"] = column(slices, [](const Slice& each) { return each.end.count(); });
    columns["bytes"] = column(slices, [](const Slice& each) { return each.bytes; });
    return columns;
}

py::dict memory_columns(const std::vector<MemorySample>& samples) {
    py::dict columns;
    columns["lane"] = column(samples, [](const MemorySample& each) { return each.lane.value(); });
    columns["time_ns"] = column(samples, [](const MemorySample& each) { return each.time.count(); });
    columns["allocated_bytes"] = column(samples, [](const MemorySample& each) { return each.allocated; });
    columns["peak_bytes"] = column(samples, [](const MemorySample& each) { return each.peak; });
    columns["reserved_bytes"] = column(samples, [](const MemorySample& each) { return each.reserved; });
    return columns;
}
}  // namespace pipescope
