#include "engine/random.h"

#include "engine/engine_error.h"
#include "engine/layer_dispatch_key.h"
#include "engine/torch_internals.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// Reused from scope to scope, so that a layer costs a seeding and no allocation.
struct SeededRandom::Generators {
    bool in_use = false;
    std::uint64_t seed = 0;
    struct OnDevice {
        c10::Device device;
        at::Generator generator;
        bool seeded;
    };
    std::vector<OnDevice> generators = {};
};

namespace {
thread_local SeededRandom::Generators of_this_thread;

bool is_generator(const c10::Argument& argument) {
    const auto& type = argument.type();
    if (type->kind() == c10::TypeKind::GeneratorType) {
        return true;
    }
    const auto optional = type->cast<c10::OptionalType>();
    return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

/// The device of an operator's draw: that of its first tensor, or the requested one.
c10::Device device_of(c10::ArrayRef<c10::IValue> arguments) {
    for (const c10::IValue& argument : arguments) {
        if (argument.isTensor() && argument.toTensor().defined()) {
            return argument.toTensor().device();
        }
    }
    for (const c10::IValue& argument : arguments) {
        if (argument.isDevice()) {
            return argument.toDevice();
        }
    }
    return c10::kCPU;
}

at::Generator& generator_for(c10::Device device) {
    auto& generators = of_this_thread.generators;
    auto found = std::find_if(generators.begin(), generators.end(),
                              [device](const auto& each) { return each.device == device; });
    if (found == generators.end()) {
        at::Generator generator =
            device.is_cpu()
                ? at::make_generator<at::CPUGeneratorImpl>()
                : at::globalContext().getAcceleratorHooksInterface(device.type()).getNewGenerator(device.index());
        found = generators.insert(generators.end(), {device, std::move(generator), false});
    }
    if (!found->seeded) {
        found->generator.set_current_seed(of_this_thread.seed);
        found->seeded = true;
    }
    return found->generator;
}

/// Torch's default generator. Shows the state of the thread's generator if there is one.
class DefaultGenerator final : public at::CPUGeneratorImpl {
public:
    explicit DefaultGenerator(const at::Generator& before) {
        CPUGeneratorImpl::set_state(*before.get_state().unsafeGetTensorImpl());
    }
    void set_current_seed(std::uint64_t seed) override {
        if (of_this_thread.in_use) {
            own().set_current_seed(seed);
        } else {
            CPUGeneratorImpl::set_current_seed(seed);
        }
    }
    std::uint64_t current_seed() const override {
        return of_this_thread.in_use ? own().current_seed() : CPUGeneratorImpl::current_seed();
    }
    std::uint64_t seed() override { return of_this_thread.in_use ? own().seed() : CPUGeneratorImpl::seed(); }
    void set_state(const c10::TensorImpl& state) override {
        if (of_this_thread.in_use) {
            own().unsafeGetGeneratorImpl()->set_state(state);
        } else {
            CPUGeneratorImpl::set_state(state);
        }
    }
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
        return of_this_thread.in_use ? own().unsafeGetGeneratorImpl()->get_state() : CPUGeneratorImpl::get_state();
    }

private:
    static at::Generator& own() { return generator_for(c10::kCPU); }
};

/// A device's autograd thread runs the device's backward. Numbers drawn there while recomputing should repeat the
/// forward's, but that thread does not have the forward's generator.
void refuse_to_draw_again(c10::Device device) {
    if (!device.is_cpu() && at::GradMode::is_enabled() && torch::autograd::get_current_graph_task_id() != -1) {
        throw EngineError("a layer computes a part of itself again in its backward and draws random numbers on " +
                          device.str() +
                          "; what it drew in its forward cannot be drawn again there; leave recomputing to the "
                          "pipeline's checkpoint option, or keep what was drawn");
    }
}

/// True if an operator is to draw from torch's default generator, named or not.
bool is_default_generator(const c10::IValue& value) {
    if (!value.isGenerator()) {
        return value.isNone();
    }
    const at::Generator generator = value.toGenerator();
    return generator.device().is_cpu() && generator == at::detail::getDefaultCPUGenerator();
}

void fill_in_generator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const auto& schema = op.schema().arguments();
    const std::size_t count = schema.size();
    const std::size_t first = stack->size() - count;
    for (std::size_t k = 0; k < count; ++k) {
        c10::IValue& value = (*stack)[first + k];
        if (is_generator(schema[k]) && is_default_generator(value)) {
            const c10::Device device = device_of(c10::ArrayRef<c10::IValue>(*stack).slice(first));
            if (device.is_meta()) {
                continue;
            }
            if (of_this_thread.in_use) {
                value = generator_for(device);
            } else {
                refuse_to_draw_again(device);
            }
        }
    }
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kLayerDispatchKey), stack);
}

/// Process-wide, as operators and torch's default generator are.
struct ProcessRandom {
    ProcessRandom()
        : fallback(torch::Library::IMPL, "_", kLayerDispatchKey, __FILE__, __LINE__),
          aten(torch::Library::IMPL, "aten", kLayerDispatchKey, __FILE__, __LINE__),
          // Kept alive: a thread may be drawing from it.
          default_before(at::detail::getDefaultCPUGenerator()) {
        fallback.fallback(torch::CppFunction::makeFallthrough());
        for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
            const auto op = c10::Dispatcher::singleton().findSchema(name);
            if (!op || name.getNamespace() != "aten") {
                continue;
            }
            const auto& arguments = op->schema().arguments();
            if (std::any_of(arguments.begin(), arguments.end(), is_generator)) {
                const std::string full_name =
                    name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
                aten.impl(full_name.c_str(), torch::CppFunction::makeFromBoxedFunction<&fill_in_generator>());
            }
        }
        // Torch hands out its handle as const only to prevent an accidental replacement.
        const_cast<at::Generator&>(at::detail::getDefaultCPUGenerator()) =
            at::make_generator<DefaultGenerator>(default_before);
    }
    torch::Library fallback;
    torch::Library aten;
    at::Generator default_before;
};

std::uint64_t mix(std::uint64_t value) {  // splitmix64's finaliser
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}
}  // namespace

std::uint64_t random_seed(std::uint64_t seed, std::int64_t step, MicroBatchId micro_batch, LayerId layer) {
    std::uint64_t hash = mix(seed);
    hash = mix(hash ^ static_cast<std::uint64_t>(step));
    hash = mix(hash ^ static_cast<std::uint64_t>(micro_batch.value()));
    return mix(hash ^ static_cast<std::uint64_t>(layer.value()));
}

std::uint64_t backward_seed(std::uint64_t seed, std::int64_t step, Cell task) {
    // No layer has this number, so no layer has this seed.
    return random_seed(seed, step, task.i, LayerId{-1 - std::int64_t{task.j.value()}});
}

std::uint64_t second_half_seed(std::uint64_t backward_seed) {
    return mix(backward_seed);
}

void prepare_random() {
    static const NoDestructor<ProcessRandom> once;
}

SeededRandom::SeededRandom(std::uint64_t seed)
    : included_before_(c10::impl::tls_is_dispatch_key_included(kLayerDispatchKey)) {
    prepare_random();
    Generators& own = of_this_thread;  // once: each access checks that the thread has them
    if (own.in_use) {
        outer_ = std::make_unique<Generators>(std::exchange(own, {}));
    }
    own.in_use = true;
    own.seed = seed;
    for (auto& each : own.generators) {
        each.seeded = false;
    }
    c10::impl::tls_set_dispatch_key_included(kLayerDispatchKey, true);
}

bool SeededRandom::has_drawn() const noexcept {
    return std::ranges::any_of(of_this_thread.generators, &Generators::OnDevice::seeded);
}

SeededRandom::~SeededRandom() {
    c10::impl::tls_set_dispatch_key_included(kLayerDispatchKey, included_before_);
    Generators& own = of_this_thread;
    own.in_use = false;
    if (outer_) {
        own = std::move(*outer_);
    }
}
}  // namespace pipescope
