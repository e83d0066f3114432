#include "engine/random.h"

#include "engine/layer_dispatch_key.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
/// The generators of one thread, kept so that a layer costs a seeding and no allocation.
struct ThreadRandom {
    std::uint64_t seed = 0;
    struct OnDevice {
        c10::Device device;
        at::Generator generator;
        bool seeded;
    };
    std::vector<OnDevice> generators;
};
thread_local ThreadRandom thread_random;

bool is_generator(const c10::Argument& argument) {
    const auto& type = argument.type();
    if (type->kind() == c10::TypeKind::GeneratorType) {
        return true;
    }
    const auto optional = type->cast<c10::OptionalType>();
    return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
}

/// Where an operator draws: at its first tensor, or at the device it was asked for.
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

const at::Generator& generator_for(c10::Device device) {
    auto& generators = thread_random.generators;
    auto found = std::find_if(generators.begin(), generators.end(),
                              [device](const ThreadRandom::OnDevice& each) { return each.device == device; });
    if (found == generators.end()) {
        at::Generator generator =
            device.is_cpu()
                ? at::make_generator<at::CPUGeneratorImpl>()
                : at::globalContext().getAcceleratorHooksInterface(device.type()).getNewGenerator(device.index());
        found = generators.insert(generators.end(), {device, std::move(generator), false});
    }
    if (!found->seeded) {
        found->generator.set_current_seed(thread_random.seed);
        found->seeded = true;
    }
    return found->generator;
}

void fill_in_generator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const auto& schema = op.schema().arguments();
    const std::size_t count = schema.size();
    const std::size_t first = stack->size() - count;
    for (std::size_t k = 0; k < count; ++k) {
        c10::IValue& value = (*stack)[first + k];
        if (value.isNone() && is_generator(schema[k])) {
            const c10::Device device = device_of(c10::ArrayRef<c10::IValue>(*stack).slice(first));
            if (!device.is_meta()) {
                value = generator_for(device);
            }
        }
    }
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kLayerDispatchKey), stack);
}

/// Process-wide, as operators are.
struct RandomKernels {
    RandomKernels()
        : fallback(torch::Library::IMPL, "_", kLayerDispatchKey, __FILE__, __LINE__),
          aten(torch::Library::IMPL, "aten", kLayerDispatchKey, __FILE__, __LINE__) {
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
    }
    torch::Library fallback;
    torch::Library aten;
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

SeededRandom::SeededRandom(std::uint64_t seed) {
    static const Permanent<RandomKernels> kernels;
    thread_random.seed = seed;
    for (ThreadRandom::OnDevice& each : thread_random.generators) {
        each.seeded = false;
    }
    c10::impl::tls_set_dispatch_key_included(kLayerDispatchKey, true);
}

SeededRandom::~SeededRandom() {
    c10::impl::tls_set_dispatch_key_included(kLayerDispatchKey, false);
}
}  // namespace pipescope
