// The counter extension of NVTX (nvToolsExtCounters.h). A sample becomes a mark with the counter's name. A number is
// the mark's payload, a counter group its JSON. Batches are ignored, because their times come from the program's own
// clocks.

#include "profiler/recorder/fork_lock.h"
#include "profiler/recorder/name_registry.h"
#include "profiler/recorder/nvtx_events.h"
#include "profiler/recorder/nvtx_table.h"

#include <nvtx3/nvToolsExtCounters.h>

#include <bit>
#include <map>
#include <memory>
#include <mutex>

namespace pipescope {
namespace {
struct Counter {
    std::uint32_t name = 0;  // number in the registry
    std::uint64_t schema = 0;
};

/// Process-wide, since NVTX's C functions have no context; never destroyed. Numbers are unique across domains.
class Counters {
public:
    Counters() { hold_across_forks(mutex_, LockRank::inner); }
    static Counters& of_process() {
        static Counters& one = *std::make_unique<Counters>().release();
        return one;
    }
    std::uint64_t add(Counter counter, std::uint64_t id) {
        const std::scoped_lock lock(mutex_);
        id = id == NVTX_COUNTER_ID_NONE ? ++last_ : id;
        counters_[id] = counter;
        return id;
    }
    Counter find(std::uint64_t id) const {
        const std::scoped_lock lock(mutex_);
        const auto found = counters_.find(id);
        return found == counters_.end() ? unknown_ : found->second;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::uint64_t, Counter> counters_;
    std::uint64_t last_ = NVTX_COUNTER_ID_DYNAMIC_START;
    const Counter unknown_{NameRegistry::of_process().text("counter"), 0};
};

std::uint64_t register_counter(nvtxDomainHandle_t, const nvtxCounterAttr_t* attributes) {
    if (attributes == nullptr) {
        return NVTX_COUNTER_ID_NONE;
    }
    const std::uint32_t name = NameRegistry::of_process().text(cut_text(utf8(attributes->name)));
    return Counters::of_process().add({name, attributes->schemaId}, attributes->counterId);
}

template <PayloadType type, class Number>
void sample_number(nvtxDomainHandle_t domain, std::uint64_t id, Number value) {
    emit_mark(from_handle(domain),
              NamedNumber{Counters::of_process().find(id).name, type, std::bit_cast<std::uint64_t>(value)});
}
void sample(nvtxDomainHandle_t domain, std::uint64_t id, const void* value, std::size_t size) {
    const Counter counter = Counters::of_process().find(id);
    const nvtxPayloadData_t data{counter.schema, size, value};
    emit_mark(from_handle(domain), NamedPayload{counter.name, {&data, 1}});
}
/// Only "zero" is a value. An unchanged or unavailable counter gives a mark without a value.
void sample_no_value(nvtxDomainHandle_t domain, std::uint64_t id, std::uint8_t reason) {
    const PayloadType type = reason == NVTX_COUNTER_SAMPLE_ZERO ? PayloadType::i64 : PayloadType::none;
    emit_mark(from_handle(domain), NamedNumber{Counters::of_process().find(id).name, type, 0});
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
