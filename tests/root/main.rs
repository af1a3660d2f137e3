//! Real loop devices, real file systems, real mounts; each test in a mount namespace of its own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::must_use_candidate,
    clippy::missing_panics_doc,
    missing_docs,
    unreachable_pub,
    reason = "test code fails by panicking, and says so"
)]

#[path = "../support/mod.rs"]
mod support;

#[macro_use]
mod needs;

mod checks;
mod corpus;
mod files;
mod heal;
mod holders;
mod scene;
mod volume;

mod access;
mod adoption;
mod aftercare;
mod attacks;
mod blank;
mod budgets;
mod census;
mod counts;
mod covered;
mod crash;
mod current_kubelet;
mod exclusive_open;
mod expand;
mod flush_first;
mod followers;
mod foreign;
mod forgery;
mod format_verb;
mod formats;
mod give_up;
mod going_namespaces;
mod guard;
mod half_done_heals;
mod hanging;
mod hanging_calls;
mod hanging_watch;
mod identity;
mod killed_heal;
mod leftovers;
mod letters;
mod letting_go;
mod life;
mod long_checks;
mod looking;
mod lost_writes;
mod many;
mod misleading_names;
mod mkfs;
mod no_child;
mod nodes;

mod old_kernel;
mod own_files;
mod ownership;
mod pull;
mod records;
mod refusals;
mod second_face;
mod second_opinions;
mod signatures;
mod staleness;
mod static_build;
mod stories;
mod stub;
mod surroundings;
mod switch;
mod tenants;
mod tend;
mod udevd;
mod unmount;
mod unreadable;
mod untrusted;
mod ways_out;
mod wishes;
mod xfs_journals;
mod yank;
