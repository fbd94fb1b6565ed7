"""From what authors write to one frozen, hashed workflow, or a list of problems. Pure: no I/O, no clock."""

from assent.compiler.build import COMPILER_VERSION, is_stale, verify_hash
from assent.compiler.compile import Compilation, compile_contract, compile_effective, compile_flow
from assent.compiler.envelope import envelope_of, generate_envelope

__all__ = [
    "COMPILER_VERSION",
    "Compilation",
    "compile_contract",
    "compile_effective",
    "compile_flow",
    "envelope_of",
    "generate_envelope",
    "is_stale",
    "verify_hash",
]
