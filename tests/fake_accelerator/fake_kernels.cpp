// Operators of the fake accelerator: CPU kernels run by the current stream.

#include "tests/fake_accelerator/fake_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope::fake_accelerator {
namespace {
using IValues = std::vector<c10::IValue>;

void delay(const std::atomic<std::int64_t>& microseconds) {
    if (const std::int64_t time = microseconds; time > 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(time));
    }
}

/// A CPU tensor on the same memory. It keeps nothing alive, like a kernel of a real device.
at::Tensor on_host(const at::Tensor& tensor) {
    return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                         tensor.options().device(c10::kCPU).requires_grad(false));
}

at::Tensor on_meta(const at::Tensor& tensor) {
    return at::empty_strided(tensor.sizes(), tensor.strides(),
                             tensor.options().device(c10::kMeta).requires_grad(false));
}

void add_memory(std::vector<void*>& to, const at::Tensor& tensor) {
    if (tensor.defined() && tensor.device().type() == kType && tensor.storage().data_ptr().get_context() != nullptr) {
        to.push_back(tensor.storage().data_ptr().get_context());
    }
}

/// Replaces every tensor of an argument, including those in lists.
template <class Replace>
c10::IValue with_tensors(const c10::IValue& value, const Replace& replace) {
    if (value.isTensor()) {
        return value.toTensor().defined() ? replace(value.toTensor()) : value.toTensor();
    }
    if (value.isTensorList()) {
        c10::List<at::Tensor> list;
        for (const at::Tensor& tensor : value.toTensorVector()) {
            list.push_back(tensor.defined() ? replace(tensor) : tensor);
        }
        return list;
    }
    if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
            list.push_back(tensor && tensor->defined() ? std::optional(replace(*tensor)) : tensor);
        }
        return list;
    }
    return value;
}

at::Tensor for_kernel(const at::Tensor& tensor) {
    if (tensor.device().type() == kType) {
        return on_host(tensor);
    }
    return tensor.clone();  // a number from the host goes along by value
}

c10::IValue argument_for_kernel(const c10::IValue& value) {
    if (value.isGenerator()) {
        at::Generator given = value.toGenerator();
        const std::lock_guard lock(given.mutex());
        return at::make_generator<at::CPUGeneratorImpl>(given.get<at::CPUGeneratorImpl>()->random64());
    }
    if (value.isDevice()) {
        return c10::Device(c10::kCPU);
    }
    return with_tensors(value, for_kernel);
}

c10::IValue argument_for_meta(const c10::IValue& value) {
    if (value.isGenerator()) {
        return {};
    }
    if (value.isDevice()) {
        return c10::Device(c10::kMeta);
    }
    return with_tensors(value, on_meta);
}

c10::Device device_of(const IValues& arguments) {
    std::optional<c10::Device> found;
    for (const c10::IValue& value : arguments) {
        with_tensors(value, [&found](const at::Tensor& tensor) {
            if (!found && tensor.device().type() == kType) {
                found = tensor.device();
            }
            return tensor;
        });
    }
    for (const c10::IValue& value : arguments) {
        if (!found && value.isDevice()) {
            found = value.toDevice();
        }
    }
    return found.value_or(c10::impl::getDeviceGuardImpl(kType)->getDevice());
}

/// For each result, the index of the argument that it aliases; -1 for a new tensor.
std::vector<int> results_in_arguments(const c10::FunctionSchema& schema) {
    std::vector<int> sources;
    for (const c10::Argument& result : schema.returns()) {
        int source = -1;
        if (result.alias_info() != nullptr) {
            for (std::size_t k = 0; k < schema.arguments().size(); ++k) {
                const c10::AliasInfo* const alias = schema.arguments()[k].alias_info();
                if (alias != nullptr && alias->beforeSets() == result.alias_info()->beforeSets()) {
                    source = static_cast<int>(k);
                }
            }
            TORCH_CHECK(source >= 0 && result.alias_info()->isWrite(), "the fake accelerator has no view ",
                        schema.name());
        }
        sources.push_back(source);
    }
    return sources;
}

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.callBoxed(&stack);
}

/// Ends the process after the failure of a kernel, since nobody can be told any more.
[[noreturn]] void fail(const c10::OperatorHandle& op, const std::exception& error) {
    std::fprintf(stderr, "fake accelerator: %s failed: %s\n", op.schema().name().c_str(), error.what());
    std::abort();
}

/// Tensors like the meta kernel's results. Empty if the operator has no meta kernel, or results of another type.
std::optional<IValues> results_by_meta(const c10::OperatorHandle& op, const IValues& arguments, c10::Device device) {
    torch::jit::Stack stack;
    for (const c10::IValue& value : arguments) {
        stack.push_back(argument_for_meta(value));
    }
    try {
        run_on_host(op, stack);
    } catch (const std::exception&) {
        return std::nullopt;
    }
    IValues results;
    for (const c10::IValue& value : stack) {
        if (!value.isTensor()) {
            return std::nullopt;
        }
        const at::Tensor& like = value.toTensor();
        results.emplace_back(like.defined()
                                 ? at::empty_strided(like.sizes(), like.strides(), like.options().device(device))
                                 : at::Tensor());
    }
    return results;
}

c10::IValue to_device(const c10::IValue& value, c10::Device device) {
    return with_tensors(value, [device](const at::Tensor& host) {
        at::Tensor result = at::empty_strided(host.sizes(), host.strides(), host.options().device(device));
        current_stream(device.index()).synchronize();
        on_host(result).copy_(host);
        return result;
    });
}

/// Memory read and written by the operator according to its schema. New results are not among the arguments.
Stream::Uses uses_of(const c10::FunctionSchema& schema, const IValues& arguments) {
    Stream::Uses uses;
    for (std::size_t k = 0; k < arguments.size(); ++k) {
        const c10::AliasInfo* const alias = schema.arguments()[k].alias_info();
        std::vector<void*>& to = alias != nullptr && alias->isWrite() ? uses.writes : uses.reads;
        with_tensors(arguments[k], [&to](const at::Tensor& tensor) {
            add_memory(to, tensor);
            return tensor;
        });
    }
    return uses;
}

void launch(const c10::OperatorHandle& op, c10::Device device, Stream::Uses uses, torch::jit::Stack stack,
            const IValues& new_results) {
    std::vector<at::Tensor> to;
    for (const c10::IValue& value : new_results) {
        to.push_back(value.toTensor().defined() ? on_host(value.toTensor()) : at::Tensor());
        add_memory(uses.writes, value.toTensor());
    }
    const auto kernel = [op, stack = std::move(stack), to = std::move(to)]() mutable {
        behaviour().holds_kernels.wait(true);
        delay(behaviour().kernel_delay_us);
        const torch::jit::Stack held = stack;  // out= operators of several results refer to them when they are gone
        try {
            run_on_host(op, stack);
            for (std::size_t k = 0; k < to.size(); ++k) {
                if (to[k].defined()) {
                    to[k].copy_(stack[k].toTensor());
                }
            }
        } catch (const std::exception& error) {
            fail(op, error);
        }
    };
    current_stream(device.index()).launch(op.schema().name(), uses, kernel);
}

/// Gives an out= operator its own results, which are then copied. The CPU's operator may resize its result (as mse_loss
/// does), and borrowed memory has a fixed size. Returns true if this was necessary.
bool give_own_results(const c10::FunctionSchema& schema, const std::vector<int>& sources, torch::jit::Stack& on_cpu) {
    const bool is_out = !sources.empty() && std::all_of(sources.begin(), sources.end(), [&](int source) {
        return schema.arguments()[static_cast<std::size_t>(source)].is_out();
    });
    for (const int source : is_out ? sources : std::vector<int>{}) {
        c10::IValue& result = on_cpu[static_cast<std::size_t>(source)];
        result = at::empty({0}, result.toTensor().options());
    }
    return is_out;
}

void run_any(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = op.schema();
    const std::size_t count = schema.arguments().size();
    const IValues arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
    stack->erase(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
    const c10::Device device = device_of(arguments);
    const c10::DeviceGuard guard(device);
    torch::jit::Stack on_cpu;
    for (const c10::IValue& value : arguments) {
        on_cpu.push_back(argument_for_kernel(value));
    }
    Stream::Uses uses = uses_of(schema, arguments);
    const std::vector<int> sources = results_in_arguments(schema);
    const bool all_are_arguments = std::all_of(sources.begin(), sources.end(), [](int source) { return source >= 0; });
    IValues results;
    if (all_are_arguments) {
        for (const int source : sources) {
            results.push_back(arguments[static_cast<std::size_t>(source)]);
        }
        const bool fills_results = give_own_results(schema, sources, on_cpu);
        launch(op, device, std::move(uses), std::move(on_cpu), fills_results ? results : IValues{});
    } else if (auto shaped = results_by_meta(op, arguments, device)) {
        results = std::move(*shaped);
        launch(op, device, std::move(uses), std::move(on_cpu), results);
    } else {
        current_stream(device.index()).launch(schema.name(), uses, [] {});
        current_stream(device.index()).synchronize();
        run_on_host(op, on_cpu);
        for (const c10::IValue& value : on_cpu) {
            results.push_back(to_device(value, device));
        }
    }
    for (c10::IValue& value : results) {
        stack->push_back(std::move(value));
    }
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
    const c10::OptionalDeviceGuard guard(device);
    return at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(kType),
                                             c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                             c10::dtype_or_default(dtype));
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
    const c10::OptionalDeviceGuard guard(device);
    return at::detail::empty_generic(sizes, c10::GetAllocator(kType),
                                     c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype),
                                     format);
}

/// Suffices for out= operators, whose results torch creates empty or in the right size.
const at::Tensor& resize(const at::Tensor& tensor, at::IntArrayRef sizes, std::optional<at::MemoryFormat>) {
    if (tensor.sizes() != sizes) {
        tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
        const std::size_t bytes = static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
        if (tensor.storage().nbytes() < bytes) {
            const c10::DeviceGuard guard(tensor.device());
            tensor.storage().set_data_ptr_noswap(c10::GetAllocator(kType)->allocate(bytes));
            tensor.storage().set_nbytes(bytes);
        }
    }
    return tensor;
}

at::Scalar local_scalar_dense(const at::Tensor& tensor) {
    Stream::Uses uses;
    add_memory(uses.reads, tensor);
    current_stream(tensor.device().index()).launch("item", uses, [] {});
    current_stream(tensor.device().index()).synchronize();
    return on_host(tensor).item();
}

/// A barrier between two streams: later work on either one waits for earlier work on the other.
void barrier(Stream& one, Stream& other) {
    const auto first = one.record();
    const auto second = other.record();
    one.wait_for(second);
    other.wait_for(first);
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
    if (from.sizes() != to.sizes()) {
        return copy_from(from.expand(to.sizes()), to, non_blocking);
    }
    if (to.numel() == 0) {
        return to;
    }
    count_copy();
    const bool from_host = from.device().is_cpu();
    const bool to_host = to.device().is_cpu();
    const at::Tensor host = from_host ? from : to;
    const bool asynchronous = !(from_host || to_host) || (non_blocking && is_pinned(host.data_ptr()));
    Stream& stream = current_stream(from_host ? to.device().index() : from.device().index());
    Stream* const destination = from_host || to_host ? &stream : &current_stream(to.device().index());
    if (destination != &stream) {
        barrier(stream, *destination);
    }
    // Keeps host memory until the copy is complete, like torch's allocator of pinned memory.
    const at::Tensor source = from_host ? from.detach() : on_host(from);
    const at::Tensor target = to_host ? to.detach() : on_host(to);
    const bool within = !from_host && !to_host && destination == &stream;
    Stream::Uses uses;
    add_memory(uses.reads, from);
    add_memory(uses.writes, to);
    const auto kernel = [source, target, within] {
        (within ? behaviour().holds_kernels : behaviour().holds_copies).wait(true);
        delay(within ? behaviour().kernel_delay_us : behaviour().copy_delay_us);
        const at::AutoDispatchBelowADInplaceOrView below;
        target.copy_(source);
    };
    if (to_host && asynchronous && behaviour().copies_late) {
        stream.launch_late("copy", uses, kernel);
    } else {
        stream.launch("copy", uses, kernel);
    }
    if (destination != &stream) {
        destination->wait_for(stream.record());
    }
    if (!asynchronous) {
        stream.synchronize();
    }
    return to;
}
}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_any>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("empty.memory_format", &empty);
    library.impl("empty_strided", &empty_strided);
    library.impl("resize_", &resize);
    library.impl("as_strided", &at::native::as_strided_tensorimpl);
    library.impl("view", &at::native::view);
    library.impl("_reshape_alias", &at::native::_reshape_alias);
    library.impl("_local_scalar_dense", &local_scalar_dense);
    library.impl("_copy_from", &copy_from);
}
}  // namespace pipescope::fake_accelerator
