//! Trees that a real model grows: the same seed gives the same ones, whatever the machine is doing.

mod acorn;
mod memory;
mod reproducible;
