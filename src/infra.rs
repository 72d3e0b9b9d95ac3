//! A folder of cluster files: one table, templates, the files that are generated from them, and the rules that they
//! must keep.
//!
//! It knows Ray's cluster-launcher YAML and nothing of any cluster: names, zones and TPUs all stand in the table.

mod generated;
mod generation;
mod image;
mod render;
mod table;
mod validate;

pub use generated::{PlanError, Planned, State, is_generated, plan, replace, write};
pub use generation::{Generation, WorkerType};
pub use image::with_tag;
pub use render::{TemplateError, render};
pub use table::{FILE, Row, Source, Sourced, Table};
pub use validate::{Finding, Severity, validate};
