//! Real servers beside the embedded engine, with the same model.
//!
//! Each needs a Python that has it: `tests/live/install` provides one with llama-server, named by EAGER_TEST_XLLAMACPP, and
//! `tests/vllm/install` one with vLLM, named by EAGER_TEST_VLLM. Where none is named the tests say so and pass.

mod agreement;
mod llama_server;
mod proxy;
mod rules;
mod server;
mod vllm;
