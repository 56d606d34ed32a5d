"""Plans of the engine `onnx`: the exported graphs of a voice."""

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import torch

from cloning.bundle import load_info, load_model
from cloning.engines import plans
from cloning.engines.plans import Key, Plan


def key_of(bundle_dir: Path) -> Key:
    """The key of a voice's plan for the programs that are installed here. Raises: BundleError."""
    from cloning.exporters.onnx import OPSET

    return Key(load_info(bundle_dir).model_id, "onnx", OPSET, f"onnxruntime {version('onnxruntime')}")


def build(bundle_dir: Path, root: Path) -> Plan:
    """Exports the graphs of a voice, compares them with torch, and puts them in place of older ones at once.

    Raises: BundleError; EngineError (`engine_failed`) where they differ from torch, `engine_unavailable` without the
        package onnx.
    """
    from cloning.exporters.onnx import export_bundle

    plans.keep(root, key_of(bundle_dir), lambda folder: export_bundle(bundle_dir, folder).difference)
    return read(bundle_dir, root)


def read(bundle_dir: Path, root: Path) -> Plan:
    """The plan of a voice, whole and made for the programs that are installed here.

    Raises: BundleError; EngineError (`engine_unavailable`), with the command that mends it.
    """
    return plans.read(root, key_of(bundle_dir))


def verified(bundle_dir: Path, root: Path) -> Plan:
    """As `read`, after the graphs were compared with torch anew. Raises: also EngineError (`engine_failed`)."""
    from cloning.exporters.onnx import check

    plan = read(bundle_dir, root)
    checked = check(load_model(bundle_dir, torch.device("cpu")), plan.folder)
    return replace(plan, difference=checked.difference)
