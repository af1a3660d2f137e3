//! Tokens kept from one process to the next: a login costs a second and is what a cloud suffers
//! from most.
//!
//! One file per credential in a folder that only root can read. Its name is a hash of everything
//! that a login consists of, the secret too, so that another password is another file. A file
//! that is not ours, torn, or near its end counts as none.

use super::catalog::RegionEndpoints;
use crate::host::files::{self, LockedFile};
use crate::model::cloud::access::Access;
use crate::model::cloud::asking::session;
use crate::model::hexadecimal::digits_of;
use crate::model::secret::Secret;
use crate::ports::clock::{Deadline, seconds};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A token and what came with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) token: Secret,
    /// By our own clock, in seconds since 1970: the service's may differ.
    pub(super) expires: u64,
    /// How many seconds it lived when it was new; 0 where that is not known.
    pub(super) life: u64,
    /// Our region's services, and after them those of the others.
    pub(super) places: Vec<RegionEndpoints>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    format: u32,
    token: String,
    expires: u64,
    #[serde(default)]
    life: u64,
    places: Vec<RegionEndpoints>,
}

/// The folder of kept tokens, for one credential.
#[derive(Debug)]
pub(super) struct Tokens {
    folder: PathBuf,
    path: PathBuf,
}

/// Held by the one process that logs in.
#[derive(Debug)]
pub(super) struct Turn {
    _file: Option<LockedFile>,
}

impl Tokens {
    pub(super) fn below(run_dir: &Path, access: &Access) -> Self {
        let folder = run_dir.join("tokens");
        let path = folder.join(name_of(access));
        Self { folder, path }
    }

    /// Another file for the same credential.
    pub(super) fn sibling(&self, ending: &str) -> PathBuf {
        self.path.with_extension(ending)
    }

    /// The kept session, if it can still be used.
    pub(super) fn kept(&self) -> Option<Session> {
        let file = File::open(&self.path).ok()?;
        let metadata = file.metadata().ok()?;
        // Nothing for group and others: the lowest six bits are zero.
        let is_ours = metadata.uid() == nix::unistd::geteuid().as_raw()
            && metadata.mode().trailing_zeros() >= 6
            && metadata.is_file();
        if !is_ours {
            tracing::warn!(path = %self.path.display(), "a kept token is not ours alone and is left out");
            return None;
        }
        let kept: Kept = serde_json::from_reader(file).ok()?;
        let is_usable = session::is_usable(kept.expires, kept.life, seconds());
        if kept.format != 2 || !is_usable || kept.places.is_empty() {
            return None;
        }
        let Kept { expires, life, places, .. } = kept;
        Some(Session { token: kept.token.into(), expires, life, places })
    }

    /// Keeps a session for the next process; a failure only costs a login.
    pub(super) fn keep(&self, session: &Session) {
        let kept = Kept {
            format: 2,
            token: session.token.reveal().to_owned(),
            expires: session.expires,
            life: session.life,
            places: session.places.clone(),
        };
        let json = serde_json::to_vec(&kept).unwrap_or_default();
        if let Err(error) = files::replace(&self.path, &json) {
            tracing::debug!(%error, "the token is not kept");
        }
    }

    /// Drops a token that a service refused, unless another process has a newer one already.
    pub(super) fn drop_refused(&self, refused: &Secret) {
        if self.kept().is_some_and(|kept| kept.token == *refused) {
            let _ = files::remove_if_there(&self.path);
        }
    }

    /// Waits for the turn to log in, so that many processes cost one login. A holder that hangs
    /// is not waited for to the end of the call, unless the cloud is not well: then one login more would not be quicker.
    pub(super) fn turn(&self, deadline: Deadline, cloud_is_well: impl Fn() -> bool) -> Turn {
        if files::make_private_folder(&self.folder).is_err() {
            return Turn { _file: None };
        }
        let path = self.path.with_extension("lock");
        let opened = files::open_shared(&path);
        let Ok(file) = opened else { return Turn { _file: None } };
        let share = session::waits_for_login(deadline.remaining(), deadline.total());
        let mut until = deadline.at_most(share);
        while file.try_lock().is_err() {
            if !until.pause(Duration::from_millis(10)) {
                if cloud_is_well() || deadline.over() {
                    return Turn { _file: None };
                }
                until = deadline;
            }
        }
        Turn { _file: Some(LockedFile::of(file)) }
    }
}

fn name_of(access: &Access) -> String {
    use crate::model::cloud::access::Login;
    let mut all = ring::digest::Context::new(&ring::digest::SHA256);
    // `Debug` of an access hides its secret; so it is added by itself.
    all.update(format!("{access:?}").as_bytes());
    all.update(b"\0");
    all.update(match &access.login {
        Login::Password { password, .. } => password.reveal().as_bytes(),
        Login::ApplicationCredential { secret, .. } => secret.reveal().as_bytes(),
    });
    let digest = all.finish();
    digits_of(&digest.as_ref()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cloud::access::Written;
    use crate::model::cloud::asking::session::MARGIN;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn access(password: &str) -> Access {
        let text =
            format!("[Global]\nauth-url=http://k\nuser-id=u\nproject-id=p\npassword={password}\n");
        Written::from_cloud_conf(&text, "f").unwrap().resolve("f").unwrap()
    }

    fn session(lasts: u64) -> Session {
        Session {
            token: "hunter2".into(),
            expires: seconds() + lasts,
            life: 3600,
            places: vec![RegionEndpoints {
                region: None,
                compute: "http://c".to_owned(),
                volume: "http://v".to_owned(),
                unfit: None,
            }],
        }
    }

    #[test]
    fn a_session_is_kept_for_its_credential_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (access("a"), access("b"));
        let tokens = Tokens::below(folder.path(), &one);
        let _turn = tokens.turn(Deadline::after(Duration::from_secs(1)), || true);
        let session = session(3600);
        tokens.keep(&session);
        assert_eq!(tokens.kept(), Some(session));
        assert_eq!(Tokens::below(folder.path(), &two).kept(), None);
        let mode = fs::metadata(&tokens.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        tokens.drop_refused(&"another".into());
        assert!(tokens.kept().is_some());
        tokens.drop_refused(&"hunter2".into());
        assert!(tokens.kept().is_none());
    }

    #[test]
    fn another_login_is_waited_for_to_the_end_where_the_cloud_is_not_well() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::below(folder.path(), &access("a"));
        let _holder = tokens.turn(Deadline::after(Duration::from_secs(1)), || true);
        for is_well in [true, false] {
            let deadline = Deadline::after(Duration::from_millis(300));
            let asked = std::cell::Cell::new(0);
            let _turn = tokens.turn(deadline, || {
                asked.set(asked.get() + 1);
                is_well
            });
            assert!(asked.get() > 0);
            assert!(if is_well { asked.get() == 1 } else { deadline.over() }, "{asked:?}");
        }
    }

    #[test]
    fn what_cannot_be_trusted_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::below(folder.path(), &access("a"));
        let _turn = tokens.turn(Deadline::after(Duration::from_secs(1)), || true);
        tokens.keep(&session(MARGIN - 10));
        assert!(tokens.kept().is_none(), "near its end");
        tokens.keep(&Session { life: 60, ..session(50) });
        assert!(tokens.kept().is_some(), "a token of a minute serves most of it");
        tokens.keep(&Session { life: 60, ..session(10) });
        assert!(tokens.kept().is_none(), "near its end");
        tokens.keep(&session(3600));
        fs::set_permissions(&tokens.path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(tokens.kept().is_none(), "others could read it");
        tokens.keep(&session(3600));
        let whole = fs::read(&tokens.path).unwrap();
        for length in [0, 1, whole.len() / 2, whole.len() - 1] {
            fs::write(&tokens.path, &whole[..length]).unwrap();
            assert!(tokens.kept().is_none(), "torn at {length}");
        }
    }
}
