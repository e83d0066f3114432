// The counter extension of NVTX (nvToolsExtCounters.h). A sample becomes a mark with the counter's name. A number is
// the mark's payload; a group of several values has none. Batches are ignored, because their times come from the
// program's own clocks.

#include "profiler/recorder/nvtx_events.h"
#include "profiler/recorder/nvtx_table.h"
#include "profiler/recorder/registered_names.h"

#include <nvtx3/nvToolsExtCounters.h>

#include <bit>
#include <memory>

namespace pipescope {
namespace {
RegisteredNames& counters() {
    static RegisteredNames& one = *std::make_unique<RegisteredNames>("counter").release();
    return one;
}

std::uint64_t register_counter(nvtxDomainHandle_t, const nvtxCounterAttr_t* attributes) {
    return attributes == nullptr ? NVTX_COUNTER_ID_NONE : counters().add(utf8(attributes->name), attributes->counterId);
}

void emit_sample(nvtxDomainHandle_t domain, std::uint64_t id, PayloadType type, std::uint64_t bits) {
    emit_mark(from_handle(domain), NamedNumber{counters().text_of(id), type, bits});
}
template <PayloadType type, class Number>
void sample_number(nvtxDomainHandle_t domain, std::uint64_t id, Number value) {
    emit_sample(domain, id, type, std::bit_cast<std::uint64_t>(value));
}
void sample(nvtxDomainHandle_t domain, std::uint64_t id, const void*, std::size_t) {
    emit_sample(domain, id, PayloadType::none, 0);
}
/// Only "zero" is a value. An unchanged or unavailable counter gives a mark without a value.
void sample_no_value(nvtxDomainHandle_t domain, std::uint64_t id, std::uint8_t reason) {
    emit_sample(domain, id, reason == NVTX_COUNTER_SAMPLE_ZERO ? PayloadType::i64 : PayloadType::none, 0);
}
void submit_samples(nvtxDomainHandle_t, const nvtxCounterBatch_t*) {
    count_deferred_submission();
}
}  // namespace

int attach_nvtx_counters(nvtxExtModuleInfo_t& module) {
    if (module.moduleId != NVTX_EXT_COUNTERS_MODULEID || module.segmentsCount < 1) {
        return 0;
    }
    const nvtxExtModuleSegment_t& slots = module.segments[0];
    set_slot(slots, NVTX3EXT_CBID_nvtxCounterRegister, &register_counter);
    set_slot(slots, NVTX3EXT_CBID_nvtxCounterSampleInt64, &sample_number<PayloadType::i64, std::int64_t>);
    set_slot(slots, NVTX3EXT_CBID_nvtxCounterSampleFloat64, &sample_number<PayloadType::f64, double>);
    set_slot(slots, NVTX3EXT_CBID_nvtxCounterSample, &sample);
    set_slot(slots, NVTX3EXT_CBID_nvtxCounterSampleNoValue, &sample_no_value);
    set_slot(slots, NVTX3EXT_CBID_nvtxCounterBatchSubmit, &submit_samples);
    return 1;
}
}  // namespace pipescope
