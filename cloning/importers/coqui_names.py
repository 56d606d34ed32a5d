"""Which tensor of a Coqui VITS checkpoint each tensor of ours comes from."""

import re

from cloning.config import VoiceConfig

# Applied in order, each to what the one before made.
_STEPS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^text_encoder\.symbols", "text_encoder.emb"),
        (r"^text_encoder\.languages", "emb_l"),
        (r"^text_encoder\.statistics", "text_encoder.proj"),
        (
            r"^text_encoder\.layers\.(\d+)\.attention\.relative_(.)\w+",
            r"text_encoder.encoder.attn_layers.\1.emb_rel_\2",
        ),
        (r"^text_encoder\.layers\.(\d+)\.attention\.(.)\w+", r"text_encoder.encoder.attn_layers.\1.conv_\2"),
        (r"^text_encoder\.layers\.(\d+)\.up", r"text_encoder.encoder.ffn_layers.\1.conv_1"),
        (r"^text_encoder\.layers\.(\d+)\.down", r"text_encoder.encoder.ffn_layers.\1.conv_2"),
        (r"^text_encoder\.layers\.(\d+)\.norm(\d)", r"text_encoder.encoder.norm_layers_\2.\1"),
        (r"^durations\.(conv|norm)(\d)", r"duration_predictor.\1_\2"),
        (r"^durations\.durations\.", "duration_predictor.post_"),
        (r"^durations\.posterior\.", "duration_predictor.post_flows."),
        (r"^durations\.flow\.", "duration_predictor.flows."),
        (r"^durations\.(text\.)?", "duration_predictor."),
        (r"flows\.shift$", "flows.0.translation"),
        (r"flows\.log_scale$", "flows.0.log_scale"),
        (r"stack\.depthwise", "convs.convs_sep"),
        (r"stack\.pointwise", "convs.convs_1x1"),
        (r"stack\.norms(\d)", r"convs.norms_\1"),
        (r"^(duration_predictor\..*)out\.", r"\1proj."),
        (r"^flow\.couplings", "flow.flows"),
        (r"\.wavenet\.gates", ".enc.in_layers"),
        (r"\.wavenet\.outs", ".enc.res_skip_layers"),
        (r"\.wavenet\.condition", ".enc.cond_layer"),
        (r"^decoder\.(pre|post)", r"waveform_decoder.conv_\1"),
        (r"^decoder\.condition", "waveform_decoder.cond_layer"),
        (r"^decoder\.stages\.(\d+)\.upsample", r"waveform_decoder.ups.\1"),
        (r"(\.norm(?:s|_layers)?_\d.*)\.weight$", r"\1.gamma"),
        (r"(\.norm(?:s|_layers)?_\d.*)\.bias$", r"\1.beta"),
    )
)
_BLOCK = re.compile(r"^decoder\.stages\.(\d+)\.blocks\.(\d+)\.(dilated|plain)\.")
_COUPLING = re.compile(r"flows\.couplings\.(\d+)")
_GROUPS = {"1": {"dilated": "convs1", "plain": "convs2"}, "2": {"dilated": "convs"}}


def their_name(name: str, config: VoiceConfig) -> str:
    """The name that a tensor of ours has in their checkpoints, weight normalisation folded."""
    if match := _BLOCK.match(name):
        index = int(match[1]) * len(config.decoder.resblock_kernels) + int(match[2])
        group = _GROUPS[config.decoder.resblock][match[3]]
        return f"waveform_decoder.resblocks.{index}.{group}.{name[match.end() :]}"
    for pattern, replacement in _STEPS:
        name = pattern.sub(replacement, name)
    # Their list of flows starts with the affine layer, which is a pair of tensors of its own here.
    return _COUPLING.sub(lambda match: f"flows.{int(match[1]) + 1}", name)
