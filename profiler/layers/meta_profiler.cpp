#include "profiler/layers/meta_profiler.h"

#include "models/meta_device.h"
#include "profiler/layers/layer_bytes.h"
#include "profiler/layers/profile_assembly.h"
#include "profiler/layers/tape_recording.h"

#include <string>
#include <utility>
#include <vector>

namespace pipescope {
Profile profile_on_meta(const ModelSpec& model, const MetaProfileOptions& options, const DeviceType& device) {
    return profile_on_meta(model, options, [&](const std::string&) { return device; });
}

Profile profile_on_meta(const ModelSpec& model, const MetaProfileOptions& options, const DeviceForDtype& device_for) {
    check_model_and_sizes(model, options.samples);
    const MetaDevice on_meta;
    LayerChain chain(model, 0, c10::Device(c10::kMeta));
    DtypeBytes dtypes;
    for (std::size_t layer = 0; layer < chain.size(); ++layer) {
        add_dtypes(chain.layer(layer), dtypes);
    }
    Profile profile;
    profile.dtype = main_dtype(dtypes);
    if (options.tf32 && profile.dtype == "float32") {
        profile.dtype = "tf32";
    }
    const DeviceType device = device_for(profile.dtype);
    peak_rate(device, profile.dtype);  // throws before the work if there is no rate
    profile.model = model.name;
    profile.program = options.program;
    profile.samples = options.samples;
    const double steps = static_cast<double>(options.samples.size() * chain.size());
    double done = 0;
    for (const std::int64_t size : options.samples) {
        const Batch batch = options.makes_meta_batches ? model.make_batch(size, 0) : meta_batch(model, size);
        LayerWalk walk({batch.input, {}});
        std::vector<Activation> before;
        for (std::size_t layer = 0; layer < chain.size(); ++layer) {
            before.push_back(walk.activation());
            walk.next(chain, layer);
            if (options.progress) {
                options.progress(++done / steps);
            }
        }
        walk.loss(chain, batch.target);
        std::vector<LayerTape> tapes = record_tapes(chain, before, batch.target);
        const ModelBytes bytes = walk.bytes();
        for (std::size_t layer = 0; layer < chain.size(); ++layer) {
            if (profile.layers.size() <= layer) {
                profile.layers.push_back(described_layer(model.layers[layer].name, chain.layer(layer)));
            }
            append_bytes(profile.layers[layer], bytes.layers[layer]);
            profile.layers[layer].tape.push_back(std::move(tapes[layer]));
        }
        profile.input_bytes.push_back(input_bytes(batch.input));
        profile.token_input = holds_tokens(batch.input);
        profile.tokens_per_sample = tokens_per_sample(batch.input);
        profile.loss_operators.push_back(bytes.loss_work);
        profile.loss_chains.push_back(bytes.loss_chains);
        profile.loss_transient_bytes.push_back(static_cast<double>(bytes.loss_transient));
        if (bytes.all_gradients_loss_transient) {
            profile.loss_all_gradients_transient_bytes.push_back(
                static_cast<double>(*bytes.all_gradients_loss_transient));
        }
    }
    return with_estimated_times(profile, device);
}
}  // namespace pipescope
