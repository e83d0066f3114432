#pragma once

#include "engine/layer.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

// A recompute sees the buffers as its forward saw them.
//
// Problem: a layer may compute with a buffer that its own forward changes, as spectral norm, counters and moving
// codebooks do. Later micro-batches change it before earlier ones are recomputed. Idea: the first checkpointed forward
// of a partition copies all buffers and so learns which ones it changes, by versions and values. From then on a
// checkpointed forward copies only those. While the recompute runs, and the backward if its graph refers to the buffer,
// the buffer's memory and its copy are exchanged. That moves no bytes and holds for every alias of the buffer.
// Afterwards the buffer has its latest values again. Invariant: every other buffer that a recompute reads has the
// memory and the version that its forward saw, or the recompute is refused. Non-trainable parameters count as buffers,
// but the first forward does not copy them, since they may be large. A forward may also put another tensor in a
// buffer's place: Layer::hold_buffers() holds those that each checkpointed forward finds, and its recompute starts from
// them.
//
// Torch's batch and instance norm are apart: in training they change their running statistics inside their kernel,
// which raises no version, and do not compute with them. Those are copied while a recompute runs, and not kept.

namespace pipescope {
/// Copies of tensors' memory. Threading: that of the partition.
class BufferCopies {
public:
    /// Copies the tensor's whole storage, once. Does nothing for a tensor without memory.
    void add(const at::Tensor& tensor);
    bool holds(const at::Tensor& tensor) const;
    /// False if the bytes of the tensor's storage differ from their copy.
    bool equals(const at::Tensor& tensor) const;
    /// Frees the copies of the storages that are not those of `tensors`.
    void keep_only(const std::vector<at::Tensor>& tensors);

    /// While it lives, the storages have the copied bytes, and the copies have theirs.
    class Exchange {
    public:
        explicit Exchange(const BufferCopies& copies);
        ~Exchange();
        Exchange(const Exchange&) = delete;
        Exchange& operator=(const Exchange&) = delete;
        /// Names the tensors to which something refers that did not when this was made, such as a graph.
        std::vector<at::Tensor> newly_used() const;

    private:
        void exchange() const;
        const BufferCopies& copies_;
        std::vector<std::size_t> uses_before_;
    };

private:
    struct Entry {
        std::vector<at::Tensor> tensors;
        c10::Storage storage;
        at::Tensor copy;  // all bytes of the storage
        std::size_t uses() const;
    };
    std::vector<Entry> entries_;  // by storage
};

class BufferWatch;

/// The state of the buffers at a checkpointed forward.
class KeptBuffers {
public:
    /// Throws EngineError if a buffer without a copy has changed since. `what` is the forward's: "micro-batch 2 on
    /// partition 1 (conv)".
    void check(const std::string& what) const;
    const BufferCopies& copies() const noexcept { return copies_; }
    /// For a recompute, which must not change them.
    BufferCopies statistics() const;
    void keep_only(const std::vector<at::Tensor>& tensors) { copies_.keep_only(tensors); }

private:
    friend class BufferWatch;
    struct Seen {
        c10::Storage storage;
        std::uint32_t version;
        std::size_t shape;  // of sizes, strides and offset
    };
    struct Learnt {
        bool is_statistic = false;  // of a batch norm, as far as is known
        bool changes = false;       // in forwards, and their outputs may depend on it
    };
    struct Watched {
        std::string name;
        at::Tensor tensor;
        bool is_parameter;
        std::shared_ptr<Learnt> learnt;  // of the name, whichever tensor has it
    };
    /// "buffer 1.weight_u"
    static std::string title_of(const Watched& watched);

    std::shared_ptr<std::vector<Watched>> list_;  // the watch's at the time
    std::vector<Seen> seen_;
    BufferCopies copies_;
};

/// Knows which buffers of a partition its forwards change. Threading: that of the partition.
class BufferWatch {
public:
    /// Takes the tensors again, after some were replaced. Keeps what it has learnt about each name.
    void list(const NamedTensors& buffers, const NamedTensors& frozen_parameters);
    /// A tensor of the lists that has the same memory; undefined if none has.
    at::Tensor sharing_memory_with(const at::Tensor& tensor) const;
    /// Another mode may change other buffers.
    void learn_again() noexcept { has_learned_ = false; }
    /// Call before a checkpointed forward, and after() after it, which throws EngineError if a buffer has another
    /// shape.
    KeptBuffers before() const;
    void after(KeptBuffers& kept);

private:
    using Watched = KeptBuffers::Watched;
    void find_statistics_of_other_layers(const KeptBuffers& kept);

    std::shared_ptr<std::vector<Watched>> list_ = std::make_shared<std::vector<Watched>>();
    std::map<std::string, std::shared_ptr<KeptBuffers::Learnt>> learnt_;  // by name
    bool has_learned_ = false;
};
}  // namespace pipescope
