//! The lab: problems, runs on disk, and what can be learnt from them.
//!
//! [`suite`] is what is asked and how it is put to a model, and [`judge`] says whether the responses are right.
//! [`run`] is a run's folder: what was asked, every finished prompt, and what came out.

pub mod judge;
pub mod run;
pub mod suite;
