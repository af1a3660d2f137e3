//! The cloud of the report: Keystone, Nova and Cinder over HTTP.

pub mod limiter;
