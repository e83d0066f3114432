#include "cluster/layout_activations.h"

namespace pipescope {
double rank_tokens(const LanguageModel& model, const Layout& layout) {
    return static_cast<double>(layout.micro_batch_size) * (static_cast<double>(model.sequence) / layout.context);
}

int sequence_split(const Layout& layout) {
    return layout.sequence_parallel ? layout.tensor : 1;
}

double rank_copied_tokens(const LanguageModel& model, const Layout& layout) {
    return rank_tokens(model, layout) / sequence_split(layout) * computed_copies(model);
}

namespace {
/// Bytes that a block does not keep because its products keep their inputs in their short dtype. Attention keeps its
/// output besides.
double kept_less(const LanguageModel& model, BlockKind kind, const Layout& layout) {
    if (!layout.is_short(kind) || !layout.how().fused_gradients) {
        return 0;
    }
    const double tokens = rank_tokens(model, layout);
    const auto hidden = static_cast<double>(model.hidden);
    const double element = static_cast<double>(dtype_bytes(layout.dtype));
    const double kept = product_bytes(layout.product_dtype);
    const double split = sequence_split(layout);
    const double norms = kind.has_experts ? 1 : 2;  // whose outputs are inputs of products alone, not of a router
    const double usual = norms * hidden / split + model.shared_width(kind) / layout.tensor;
    const double copies = kind.has_experts
                              ? rank_copied_tokens(model, layout) *
                                    (hidden * layout.expert_tensor + static_cast<double>(model.expert_hidden))
                              : 0;
    return (tokens * usual + copies) * (element - kept) - tokens * model.attended_width() / layout.tensor * kept;
}
}  // namespace

LayoutActivations layout_activations(const LanguageModel& model, BlockKind kind, const Layout& layout) {
    const double element = static_cast<double>(dtype_bytes(layout.dtype));
    const BlockActivations whole =
        block_activations(model, kind, static_cast<double>(layout.micro_batch_size) / layout.context, layout.tensor,
                          layout.sequence_parallel, element);
    double rest = whole.rest;
    if (kind.has_experts) {
        // Ranks that split an expert have each other's copies: as inputs, and beside LoRA's matrices.
        const double numbers =
            static_cast<double>(model.hidden) +
            static_cast<double>(model.lora) * static_cast<double>(rank_expert_matrices(model, 1).size());
        rest += (layout.expert_tensor - 1) * (rank_copied_tokens(model, layout) * numbers * element);
    }
    rest -= kept_less(model, kind, layout);
    const double all = whole.core + rest;
    // A frozen block keeps nothing, and its forward works with what a trained one keeps.
    switch (kind.is_frozen ? Recompute::full : layout.recompute) {
        case Recompute::none: return {whole.input, all, 0};
        case Recompute::selective: {
            const double share = layout.how().selective_share;
            const double repeated = share > 0 ? share * all : whole.core;
            return {whole.input, all - repeated, repeated};
        }
        case Recompute::full: break;
    }
    return {whole.input, 0, all};
}
}  // namespace pipescope
