// A message is a head of 64-bit numbers, then the tensors' bytes:
//
//     magic, run, key, number of numbers, numbers ..,
//     number of storages, for each: offset (-1: goes from device to device, in this order) and bytes of its payload
//     number of tensors, for each: storage (-1: undefined), dtype, requires_grad, layout, place in the storage, n,
//         n sizes, n strides
//
// Layout "spread": the payload holds the elements in order and the receiver spreads them over the strides, as for a
// slice of a large tensor. Layout "view": the payload holds the span of memory that the tensor, and others that share
// it, refer to.

#include "engine/processes/message.h"

#include "engine/engine_error.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <new>
#include <string>
#include <utility>

namespace pipescope {
namespace {
constexpr std::int64_t kMagic = 0x50495045'53434f50;
constexpr std::size_t kAlignment = 64;
constexpr std::int64_t kLargestItem = 16;  // bytes of a complex double; spans begin at its multiples, for every dtype
constexpr std::int64_t kUndefined = -1;
constexpr std::int64_t kDirect = -1;
enum Layout : std::int64_t { spread, view };

std::size_t aligned(std::size_t size) {
    return (size + kAlignment - 1) / kAlignment * kAlignment;
}

/// `link`: the one that the tensor takes from its device, if any.
void check_plain(const at::Tensor& tensor, const LaneLink* link) {
    if (tensor.layout() != c10::kStrided || tensor.is_quantized() || !tensor.has_storage()) {
        throw EngineError("a " + std::string(tensor.toString()) +
                          " goes from one process to another; only tensors with plain, strided memory can; convert it "
                          "with to_dense() or dequantize(), or keep both layers in one process");
    }
    const bool is_on_lane = link != nullptr && link->source()->device() == tensor.device();
    if (!tensor.is_cpu() && !is_on_lane) {
        throw EngineError("a tensor on " + tensor.device().str() + " goes to another process from a lane on " +
                          (link == nullptr ? "cpu" : link->source()->device().str()) +
                          "; it must be on its lane's device or on cpu; move it there in the layer");
    }
}

/// Elements from the first to behind the last that the tensor refers to.
std::int64_t extent(const at::Tensor& tensor) {
    if (tensor.numel() == 0) {
        return 0;
    }
    std::int64_t last = 0;
    for (std::int64_t d = 0; d < tensor.dim(); ++d) {
        last += (tensor.size(d) - 1) * tensor.stride(d);
    }
    return last + 1;
}

/// Bytes [begin, end) of a storage.
struct Span {
    std::int64_t begin = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = 0;
    int users = 0;
};

Span span_of(const at::Tensor& tensor) {
    const auto item = static_cast<std::int64_t>(tensor.itemsize());
    const std::int64_t begin = tensor.storage_offset() * item;
    return {begin / kLargestItem * kLargestItem, begin + extent(tensor) * item, 1};
}

bool is_repeated(std::int64_t size, std::int64_t stride) {
    return stride == 0 && size > 1;
}

/// The tensor without the repetitions that expand() makes.
at::Tensor without_repeats(at::Tensor tensor) {
    for (std::int64_t d = 0; d < tensor.dim(); ++d) {
        if (is_repeated(tensor.size(d), tensor.stride(d))) {
            tensor = tensor.narrow(d, 0, 1);
        }
    }
    return tensor;
}

/// The bytes [begin, end) of the tensor's storage, as a tensor that shares it.
at::Tensor bytes_of_span(const at::Tensor& tensor, const Span& span) {
    return tensor.as_strided({0}, {1}).view(at::kByte).as_strided({span.end - span.begin}, {1}, span.begin);
}

at::Tensor as_bytes(const at::Tensor& contiguous) {
    const auto item = static_cast<std::int64_t>(contiguous.itemsize());
    const std::int64_t begin = contiguous.storage_offset() * item;
    return bytes_of_span(contiguous, {begin, begin + contiguous.numel() * item, 1});
}

/// The contiguous tensor on the host. With a link it is read later, so even one that is there is copied.
at::Tensor on_host(const at::Tensor& contiguous, const LaneLink* link) {
    if (contiguous.is_cpu()) {
        return link != nullptr ? contiguous.clone() : contiguous;
    }
    const at::Tensor copied = at::empty(contiguous.sizes(), link->destination().dtype(contiguous.dtype()));
    link->copy(contiguous, copied);
    return copied;
}

class Reader {
public:
    explicit Reader(std::span<const std::byte> from, std::size_t at = 0) : from_(from), at_(at) {}
    std::size_t place() const noexcept { return at_; }
    std::int64_t next() {
        require((at_ + 1) * sizeof(std::int64_t) <= from_.size());
        std::int64_t value = 0;
        std::memcpy(&value, from_.data() + at_++ * sizeof(value), sizeof(value));
        return value;
    }
    /// A count of things that take at least one number each.
    std::size_t count() {
        const std::int64_t value = next();
        require(value >= 0 && static_cast<std::size_t>(value) <= from_.size() / sizeof(std::int64_t));
        return static_cast<std::size_t>(value);
    }
    std::vector<std::int64_t> list(std::size_t count) {
        std::vector<std::int64_t> values;
        for (std::size_t k = 0; k < count; ++k) {
            values.push_back(next());
        }
        return values;
    }
    std::span<const std::byte> payload(std::int64_t offset, std::int64_t size) const {
        const auto all = static_cast<std::int64_t>(from_.size());
        require(offset >= 0 && size >= 0 && offset <= all && size <= all - offset);
        return from_.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
    }
    static void require(bool is_right) {
        if (!is_right) {
            throw EngineError(
                "a message of another process is damaged; all processes must run the same build of PipeScope");
        }
    }

private:
    std::span<const std::byte> from_;
    std::size_t at_;
};

/// The bytes of a storage in the frame, or that come from a device.
struct StoredBytes {
    std::size_t size;
    std::span<const std::byte> in_frame = {};
    bool is_direct = false;
};

StoredBytes stored_bytes(const Reader& reader, std::int64_t offset, std::int64_t size) {
    if (offset != kDirect) {
        const auto in_frame = reader.payload(offset, size);
        return {in_frame.size(), in_frame};
    }
    Reader::require(size >= 0);
    return {static_cast<std::size_t>(size), {}, true};
}

/// Fills a tensor from a payload, whose elements have these sizes.
void fill(const at::Tensor& tensor, const StoredBytes& payload, at::IntArrayRef sizes, const LaneLink* to_device) {
    if (payload.size == 0) {
        return;
    }
    if (payload.is_direct) {
        Reader::require(to_device != nullptr && to_device->peer() != nullptr);
        const at::Tensor dense = tensor.is_contiguous() ? tensor : at::empty(sizes, tensor.options());
        to_device->peer()->receive(as_bytes(dense));
        if (!dense.is_same(tensor)) {
            tensor.copy_(dense);
        }
        return;
    }
    if (to_device == nullptr && tensor.is_contiguous()) {
        std::memcpy(tensor.mutable_data_ptr(), payload.in_frame.data(), payload.size);
        return;
    }
    const at::Tensor there =
        at::from_blob(const_cast<std::byte*>(payload.in_frame.data()), sizes, tensor.scalar_type());
    if (to_device == nullptr) {
        tensor.copy_(there);
    } else {
        to_device->copy(there, tensor);
    }
}

/// Tensors refer to the payloads in their order, so those that come from a device are received as they were sent.
at::Tensor read_tensor(Reader& reader, const std::vector<StoredBytes>& payloads, std::vector<at::Tensor>& storages,
                       const LaneLink* to_device) {
    const std::int64_t storage = reader.next();
    if (storage == kUndefined) {
        return {};
    }
    Reader::require(storage >= 0 && static_cast<std::size_t>(storage) < payloads.size());
    const std::int64_t dtype = reader.next();
    Reader::require(dtype >= 0 && dtype < static_cast<std::int64_t>(at::ScalarType::NumOptions));
    const bool requires_grad = reader.next() != 0;
    const std::int64_t layout = reader.next();
    const std::int64_t place = reader.next();
    const std::size_t dim = reader.count();
    const std::vector<std::int64_t> sizes = reader.list(dim);
    const std::vector<std::int64_t> strides = reader.list(dim);
    const at::TensorOptions memory = to_device != nullptr ? to_device->destination() : at::TensorOptions();
    const StoredBytes& payload = payloads[static_cast<std::size_t>(storage)];
    at::Tensor tensor;
    if (layout == spread) {
        std::vector<std::int64_t> stored = sizes;
        for (std::size_t d = 0; d < dim; ++d) {
            stored[d] = is_repeated(sizes[d], strides[d]) ? 1 : sizes[d];
        }
        tensor = at::empty_strided(stored, strides, memory.dtype(static_cast<at::ScalarType>(dtype)));
        Reader::require(static_cast<std::size_t>(tensor.nbytes()) == payload.size);
        fill(tensor, payload, stored, to_device);
        if (stored != sizes) {
            tensor = tensor.expand(sizes).detach();
        }
    } else {
        at::Tensor& bytes = storages[static_cast<std::size_t>(storage)];
        if (!bytes.defined()) {
            const auto size = static_cast<std::int64_t>(payload.size);
            bytes = at::empty({(size + kLargestItem - 1) / kLargestItem * kLargestItem}, memory.dtype(at::kByte));
            fill(bytes.narrow(0, 0, size), payload, {size}, to_device);
        }
        // A view, so that a change in place counts for all tensors that share the memory. It checks the bounds.
        tensor = bytes.view(static_cast<at::ScalarType>(dtype)).as_strided(sizes, strides, place).detach();
    }
    return tensor.set_requires_grad(requires_grad);
}
}  // namespace

Frame::Frame(std::size_t capacity)
    : capacity_(aligned(capacity)),
      memory_(static_cast<std::byte*>(::operator new(capacity_, std::align_val_t(kAlignment)))) {}

void Frame::Free::operator()(std::byte* memory) const {
    ::operator delete(memory, std::align_val_t(kAlignment));
}

PackedMessage::Payload PackedMessage::payload_of(const at::Tensor& contiguous, const LaneLink* link) {
    Payload payload{static_cast<std::int64_t>(contiguous.nbytes())};
    if (contiguous.is_cpu() || link == nullptr || link->peer() == nullptr) {
        payload.bytes = on_host(contiguous, link);
    } else if (payload.size > 0) {
        link->peer()->send(as_bytes(contiguous));
    }
    return payload;
}

PackedMessage::PackedMessage(const Message& message, const LaneLink* link) {
    const at::NoGradGuard no_grad;
    std::map<const void*, Span> spans;  // by storage
    Tensors tensors;
    for (const at::Tensor& tensor : message.tensors) {
        tensors.push_back(tensor.defined() ? tensor.detach().resolve_conj().resolve_neg() : tensor);
        if (tensor.defined()) {
            check_plain(tensors.back(), link);
            const Span own = span_of(tensors.back());
            Span& whole = spans[tensors.back().storage().unsafeGetStorageImpl()];
            whole = {std::min(whole.begin, own.begin), std::max(whole.end, own.end), whole.users + 1};
        }
    }

    std::map<const void*, std::int64_t> shared;  // storages whose span goes as it is, by place in payloads_
    std::vector<std::int64_t> of_tensors;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        const at::Tensor& tensor = tensors[k];
        if (!tensor.defined()) {
            of_tensors.push_back(kUndefined);
            continue;
        }
        const void* storage = tensor.storage().unsafeGetStorageImpl();
        const Span& span = spans[storage];
        const auto item = static_cast<std::int64_t>(tensor.itemsize());
        const std::int64_t own_bytes = tensor.numel() * item;
        const bool as_view = span.users > 1 || (span.end - span.begin <= own_bytes && !tensor.is_contiguous());
        std::int64_t payload = static_cast<std::int64_t>(payloads_.size());
        if (as_view && shared.contains(storage)) {
            payload = shared[storage];
        } else if (as_view) {
            shared[storage] = payload;
            payloads_.push_back(payload_of(bytes_of_span(tensor, span), link));
        } else {
            payloads_.push_back(payload_of(without_repeats(tensor).contiguous(), link));
        }
        of_tensors.insert(of_tensors.end(),
                          {payload, static_cast<std::int64_t>(tensor.scalar_type()),
                           message.tensors[k].requires_grad() ? 1 : 0, as_view ? view : spread,
                           as_view ? (tensor.storage_offset() * item - span.begin) / item : 0, tensor.dim()});
        of_tensors.insert(of_tensors.end(), tensor.sizes().begin(), tensor.sizes().end());
        of_tensors.insert(of_tensors.end(), tensor.strides().begin(), tensor.strides().end());
    }

    head_ = {kMagic, message.run, static_cast<std::int64_t>(message.key),
             static_cast<std::int64_t>(message.numbers.size())};
    head_.insert(head_.end(), message.numbers.begin(), message.numbers.end());
    head_.push_back(static_cast<std::int64_t>(payloads_.size()));
    const std::size_t places = head_.size();
    head_.resize(places + 2 * payloads_.size());
    head_.push_back(static_cast<std::int64_t>(tensors.size()));
    head_.insert(head_.end(), of_tensors.begin(), of_tensors.end());
    size_ = aligned(head_.size() * sizeof(std::int64_t));
    for (std::size_t k = 0; k < payloads_.size(); ++k) {
        Payload& each = payloads_[k];
        each.offset = each.bytes.defined() ? static_cast<std::int64_t>(size_) : kDirect;
        head_[places + 2 * k] = each.offset;
        head_[places + 2 * k + 1] = each.size;
        if (each.bytes.defined()) {
            size_ = aligned(size_ + static_cast<std::size_t>(each.size));
        }
    }
}

void PackedMessage::write(std::span<std::byte> to) const {
    std::memcpy(to.data(), head_.data(), head_.size() * sizeof(std::int64_t));
    for (const Payload& each : payloads_) {
        if (each.bytes.defined() && each.size > 0) {
            std::memcpy(to.data() + each.offset, each.bytes.const_data_ptr(), static_cast<std::size_t>(each.size));
        }
    }
}

ReceivedMessage::ReceivedMessage(std::span<const std::byte> frame) : frame_(frame) {
    Reader reader(frame);
    Reader::require(reader.next() == kMagic);
    run_ = reader.next();
    key_ = static_cast<std::uint64_t>(reader.next());
    numbers_ = reader.list(reader.count());
    place_of_tensors_ = reader.place();
}

Tensors ReceivedMessage::tensors(const LaneLink* to_device) const {
    const at::NoGradGuard no_grad;
    Reader reader(frame_, place_of_tensors_);
    std::vector<StoredBytes> payloads;
    for (std::size_t left = reader.count(); left > 0; --left) {
        const std::int64_t offset = reader.next();
        payloads.push_back(stored_bytes(reader, offset, reader.next()));
    }
    std::vector<at::Tensor> storages(payloads.size());
    Tensors tensors;
    const std::size_t count = reader.count();
    for (std::size_t k = 0; k < count; ++k) {
        tensors.push_back(read_tensor(reader, payloads, storages, to_device));
    }
    return tensors;
}
}  // namespace pipescope
