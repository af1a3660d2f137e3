//! One call: words become an operation, and its result a reply.

use crate::channel::Channel;
use crate::driver::detach::Force;
use crate::driver::publish::Publication;
use crate::driver::stage::Wish;
use crate::driver::{Driver, Outcome, Volume};
use crate::flexvolume::call::Call;
use crate::flexvolume::folders::{self, Folder};
use crate::flexvolume::options::{Access, Options};
use crate::flexvolume::reply::Reply;
use crate::host::machine;
use crate::model::config::Config;
use crate::model::error::{Error, Kind, Result};
use crate::model::situation::Sharing;
use crate::model::target::StagePlace;
use crate::model::time::Deadline;
use crate::watch::{self, Subject};
use crate::wiring::{self, BESIDE, ETC, Setting};
use crate::{host, log, seam};
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Answers one call of kubelet or the controller-manager. It always answers.
pub fn answer(word: &str, arguments: &[OsString], channel: &Arc<Channel>) -> Reply {
    let call_id = log::new_call_id();
    let mut object = String::new();
    let answered = catch_unwind(AssertUnwindSafe(|| {
        call_driver(word, arguments, channel, &call_id, &mut object)
    }));
    match answered {
        Ok(Ok(reply)) => reply,
        Ok(Err(error)) => Reply::failure(shown(word), &object, &error, &call_id),
        Err(_) => {
            let error = Error::new(Kind::Bug, "the driver failed inside")
                .hint("its log has the details under the call's id");
            Reply::failure(shown(word), &object, &error, &call_id)
        }
    }
}

/// The answer to no word at all.
#[must_use]
pub fn answer_to_nothing() -> Reply {
    let error = Error::bad_call("called without a call word").hint("disk --help shows them");
    Reply::failure("", "disk", &error, &log::new_call_id())
}

/// A word of ours may stand in a message; anything else might be anything.
fn shown(word: &str) -> &str {
    if crate::flexvolume::call::WORDS.contains(&word) { word } else { "" }
}

fn call_driver(
    word: &str,
    arguments: &[OsString],
    channel: &Arc<Channel>,
    call_id: &str,
    object: &mut String,
) -> Result<Reply> {
    seam::step("call");
    if Call::is_constant(word) {
        return Ok(match Call::parse(word, arguments)? {
            Call::Init => Reply::capabilities(),
            _ => Reply::not_supported(),
        });
    }
    let begin = Instant::now();
    let (config, origin) = load_config()?;
    // Without a log the call goes on: it is worth more than its record.
    let _is_logged = log::start(&config);
    log_panics();
    // Every line of the call carries its id and word.
    let _span = tracing::error_span!("call", id = call_id, op = word).entered();
    let parsed = Call::parse(word, arguments);
    *object = parsed.as_ref().map(Call::object).unwrap_or_default();
    let (pid, parent) = (std::process::id(), machine::parent_name());
    tracing::info!(object, pid, parent, "begin");
    let answered = parsed.and_then(|call| {
        seam::step("begin");
        let deadline = config.deadline.of(word);
        let subject = Subject {
            action: word.to_owned(),
            object: object.clone(),
            call_id: call_id.to_owned(),
        };
        watch::start(Arc::clone(channel), subject, deadline)?;
        call.within(config.paths.kubelet_root.as_ref())?;
        dispatch(&call, word, &config, origin.as_deref(), Deadline::after(deadline))
    });
    let duration_ms = begin.elapsed().as_millis();
    match &answered {
        Ok((_, outcome)) => {
            tracing::info!(object, duration_ms, ?outcome, "end: Success");
        }
        // The guard has said it, and says it again when it is worth it.
        Err(error) if error.is_repeated => {
            tracing::debug!(object, duration_ms, kind = error.kind.word(), reason = %error, "end: Failure");
        }
        Err(error) => {
            tracing::error!(object, duration_ms, kind = error.kind.word(), reason = %error, "end: Failure");
        }
    }
    answered.map(|(reply, _)| reply)
}

fn dispatch(
    call: &Call,
    word: &str,
    config: &Config,
    origin: Option<&Path>,
    deadline: Deadline,
) -> Result<(Reply, Outcome)> {
    let setting = Setting { config, origin, operation: word, region: call.region(), deadline };
    wiring::with_driver(&setting, |driver| perform(call, config, driver))
}

fn perform(call: &Call, config: &Config, driver: &Driver<'_>) -> Result<(Reply, Outcome)> {
    let plain = |outcome: Outcome| (Reply::success(), outcome);
    match call {
        Call::Attach { options, node } => {
            let (link, outcome) = driver.attach(&volume(options), node, options.sharing)?;
            Ok((Reply::device(&link), outcome))
        }
        Call::Detach { name, node } => driver.detach(name, node.as_ref(), Force::No).map(plain),
        Call::IsAttached { options, node } => {
            let attached = driver.is_attached(&volume(options), node)?;
            Ok((Reply::attached(attached), Outcome::Already))
        }
        Call::WaitForAttach { device, options } => {
            let place = stage_place(options, config);
            let path = driver.wait_for_disk(&volume(options), device, &place)?;
            Ok((Reply::device(&path), Outcome::Already))
        }
        Call::MountDevice { folder, device, options } => {
            let wish = wish(options)?;
            driver.stage(&volume(options), &folder.target, &wish, device).map(plain)
        }
        Call::UnmountDevice { folder } => driver.unstage(&folder.name, &folder.target).map(plain),
        Call::Mount { folder, pod, options } => {
            let wish = &wish(options)?;
            let publication = Publication {
                consumer: pod,
                label: options.pod.as_deref(),
                target: &folder.target,
                stage: &folders::global_of(folder),
                wish,
                read_only: options.access == Access::ReadOnly,
            };
            driver.publish(&volume(options), &publication).map(plain)
        }
        Call::Unmount { folder: Folder { target, name }, pod } => {
            driver.unpublish(name, pod, target).map(plain)
        }
        Call::ExpandFs { options, device, folder, bytes } => {
            driver.expand(&volume(options), &folder.target, *bytes, device).map(plain)
        }
        Call::Init | Call::NotSupported => Ok((Reply::not_supported(), Outcome::Already)),
    }
}

fn volume(options: &Options) -> Volume {
    Volume::new(options.volume.clone(), options.name.clone())
}

fn wish(options: &Options) -> Result<Wish> {
    Ok(Wish {
        mount_options: options.mount_options.clone(),
        mkfs_options: options.mkfs_options.clone(),
        untouched: options.sharing == Sharing::ReadOnly,
        ..Wish::for_file_system(&options.fs_type)?
    })
}

fn stage_place(options: &Options, config: &Config) -> StagePlace {
    let name = options.name.clone().unwrap_or_else(|| options.volume.as_name());
    StagePlace { root: config.paths.kubelet_root.clone(), below: folders::global_below(&name) }
}

const VARIABLE: &str = "INCLOUD_DISK_CONFIG";

/// The configuration and the file that it came from; the defaults if there is no file.
///
/// A file beside the executable is the one that a controller-manager's container has: only the
/// plugin folder is mounted there, and hidden files in it are not taken for drivers.
pub fn load_config() -> Result<(Config, Option<PathBuf>)> {
    let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let is_named = named.is_some();
    let beside = executable().and_then(|exe| Some(exe.parent()?.join(BESIDE)));
    let places = match named {
        Some(path) => vec![path],
        None => std::iter::once(PathBuf::from(ETC)).chain(beside).collect(),
    };
    for path in places {
        match host::files::read_if_there(&path) {
            Ok(Some(text)) => {
                let config = Config::parse(&text, &path.display().to_string())?;
                return Ok((config, Some(path)));
            }
            Ok(None) if is_named => {
                return Err(Error::new(Kind::Config, format!("{} is not there", path.display()))
                    .hint(format!("{VARIABLE} names it")));
            }
            Ok(None) => {}
            Err(error) => return Err(Error { kind: Kind::Config, ..error }),
        }
    }
    Ok((Config::default(), None))
}

/// This executable; where there is no `/proc`, by the full path that kubelet calls it with.
fn executable() -> Option<PathBuf> {
    let called = || std::env::args_os().next().map(PathBuf::from).filter(|path| path.is_absolute());
    std::env::current_exe().ok().or_else(called)
}

fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        // The place, not the message: a message may quote what is secret.
        let place = panic.location().map(ToString::to_string);
        tracing::error!(?place, "end: panicked");
    }));
}
