//! A context to look with, by the configuration as far as this user can read it.

use crate::app;
use crate::configuration::Config;
use crate::driver::Context;
use crate::host::machine;
use crate::model::error::{Error, Result};
use crate::ports::clock::Deadline;
use crate::wiring::{self, Setting};
use std::path::PathBuf;
use std::time::Duration;

/// How long people wait for a cloud before its view is "unknown".
const PATIENCE: Duration = Duration::from_secs(3);

/// The configuration as far as this user can read it.
#[derive(Debug)]
pub(super) struct Configured {
    pub(super) config: Config,
    pub(super) origin: Option<PathBuf>,
    /// Why the defaults stand in for it.
    pub(super) trouble: Option<Error>,
}

impl Configured {
    pub(super) fn read() -> Self {
        match app::load_config() {
            Ok((config, origin)) => Self { config, origin, trouble: None },
            Err(error) => Self { config: Config::default(), origin: None, trouble: Some(error) },
        }
    }

    /// Whether only root may read it.
    pub(super) fn is_hidden(&self) -> bool {
        !machine::is_root() && self.trouble.as_ref().is_some_and(Error::is_denied)
    }

    /// What that hides, in words; an error if it is not only a matter of rights.
    pub(super) fn unseen(&self) -> Result<Vec<String>> {
        match &self.trouble {
            Some(error) if !self.is_hidden() => Err(error.clone()),
            _ => Ok(self.all_unseen()),
        }
    }

    /// What cannot be seen, including a broken configuration, which is no error here.
    pub(super) fn all_unseen(&self) -> Vec<String> {
        let defaults = |error: &Error| {
            if self.is_hidden() {
                return format!("the configuration, so the defaults are taken: {}", error.cause);
            }
            format!("the configuration, which is broken, so the defaults are taken: {error}")
        };
        let rights = || "what only root may read: run it with sudo".to_owned();
        let rights = (!machine::is_root()).then(rights);
        self.trouble.iter().map(defaults).chain(rights).collect()
    }

    /// Looks, with a context of its own.
    pub(super) fn with_context<T>(
        &self,
        verb: &str,
        work: impl FnOnce(&Context<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_patient_context(verb, PATIENCE, work)
    }

    /// The same, and the cloud may take so long.
    pub(super) fn with_patient_context<T>(
        &self,
        verb: &str,
        patience: Duration,
        work: impl FnOnce(&Context<'_>) -> Result<T>,
    ) -> Result<T> {
        let deadline = Deadline::after(patience);
        let setting = Setting {
            trouble: self.trouble.as_ref(),
            ..app::setting(&self.config, self.origin.as_deref(), verb, deadline)
        };
        wiring::with_context(&setting, work)
    }
}
