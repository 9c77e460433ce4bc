//! A model's weights in another format, so that both engines can be compared in the formats that people use.

use std::ffi::CString;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_sys_2 as sys;

/// llama.cpp's formats, by the names that its files carry.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Format {
    #[value(name = "Q4_0")]
    Q4_0,
    #[value(name = "Q4_1")]
    Q4_1,
    #[value(name = "Q4_K_M")]
    Q4KM,
    #[value(name = "Q8_0")]
    Q8_0,
}

impl Format {
    fn file_type(self) -> sys::llama_ftype {
        match self {
            Format::Q4_0 => sys::LLAMA_FTYPE_MOSTLY_Q4_0,
            Format::Q4_1 => sys::LLAMA_FTYPE_MOSTLY_Q4_1,
            Format::Q4KM => sys::LLAMA_FTYPE_MOSTLY_Q4_K_M,
            Format::Q8_0 => sys::LLAMA_FTYPE_MOSTLY_Q8_0,
        }
    }
}

/// Writes the model `from` in `format` to `to`.
pub fn quantise(from: &Path, to: &Path, format: Format, threads: u16) -> Result<()> {
    ensure!(from != to, "{} cannot be read and written at once; name another file to write", from.display());
    let mut backend = LlamaBackend::init()?;
    backend.void_logs();
    // SAFETY: the function takes nothing and returns a plain struct.
    let mut options = unsafe { sys::llama_model_quantize_default_params() };
    options.nthread = threads.into();
    options.ftype = format.file_type();
    options.allow_requantize = true;
    let (source, target) = (c_path(from)?, c_path(to)?);
    // SAFETY: both paths are strings that end with NUL and outlive the call, as do the options.
    let code = unsafe { sys::llama_model_quantize(source.as_ptr(), target.as_ptr(), &raw const options) };
    ensure!(code == 0, "llama.cpp cannot write {} from {}", to.display(), from.display());
    Ok(())
}

fn c_path(path: &Path) -> Result<CString> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    CString::new(text).with_context(|| format!("{text:?} holds a NUL"))
}
