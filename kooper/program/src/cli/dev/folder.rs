//! The folder with the files that `dev` keeps between two runs.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The file with port and credentials. A process locks it while it uses the folder; the operating system releases the
/// lock when the process ends.
const KEPT: &str = "server.json";

/// The kubeconfig for kubectl.
const KUBECONFIG: &str = "kubeconfig";

/// The most processes of one program at the same time.
const MOST: usize = 64;

/// A folder that no other process uses.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    kept: File,
    /// `true` if another process of the program uses the first folder.
    pub(super) is_other: bool,
}

/// The properties of a server that survive a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedServer {
    pub(super) port: u16,
    /// In PEM, as the server formats them.
    pub(super) credentials: String,
}

/// Why the files cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum FolderError {
    #[error(
        "cannot create a folder for the files of `dev`: {path}: {error}; set XDG_STATE_HOME to a folder that you can \
         write to"
    )]
    Unusable { path: String, error: io::Error },
    #[error("{path} cannot be written: {error}")]
    Unwritten { path: String, error: io::Error },
    #[error("too many processes of {name} run `dev` at the same time: stop one of them")]
    TooMany { name: String },
    #[error("`dev` of {name} is running with the files in {path}: stop it, then remove them")]
    InUse { name: String, path: String },
}

impl Folder {
    /// Locks the first of a program's folders that no other process uses.
    pub(super) fn take(name: &str) -> Result<Self, FolderError> {
        let mut last = None;
        for base in bases() {
            match check(&base).and_then(|()| Self::take_in(&base.path, name)) {
                Err(FolderError::Unusable { path, error }) => {
                    last = last.or(Some(FolderError::Unusable { path, error }));
                }
                taken => return taken,
            }
        }
        let none = || FolderError::Unusable { path: "HOME".to_owned(), error: io::ErrorKind::NotFound.into() };
        Err(last.unwrap_or_else(none))
    }

    fn take_in(base: &Path, name: &str) -> Result<Self, FolderError> {
        for nth in 1..=MOST {
            let path = nth_of(base, name, nth);
            let unusable = |error| FolderError::Unusable { path: path.display().to_string(), error };
            make_private(&path).map_err(unusable)?;
            let kept = open_private(&path.join(KEPT)).map_err(unusable)?;
            match kept.try_lock() {
                Ok(()) => return Ok(Self { path, kept, is_other: nth > 1 }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(unusable(error)),
            }
        }
        Err(FolderError::TooMany { name: name.to_owned() })
    }

    /// Reads what the last run kept; `None` on the first run, and if the file is damaged.
    pub(super) fn kept(&mut self) -> Option<SavedServer> {
        let mut text = String::new();
        self.kept.rewind().and_then(|()| self.kept.read_to_string(&mut text)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Keeps port and credentials for the next run. The file is written in place, because it is also the lock.
    pub(super) fn keep(&mut self, kept: &SavedServer) -> Result<(), FolderError> {
        let text = serde_json::to_vec(kept).unwrap_or_default();
        let file = &mut self.kept;
        let written = file.rewind().and_then(|()| file.set_len(0)).and_then(|()| file.write_all(&text));
        written.map_err(|error| unwritten(&self.path.join(KEPT), error))
    }

    /// The path of the kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path.join(KUBECONFIG)
    }

    /// Replaces the kubeconfig atomically: a reader gets either the old or the new one.
    pub(super) fn write_kubeconfig(&self, text: &str) -> Result<(), FolderError> {
        let (path, new) = (self.kubeconfig(), self.path.join("kubeconfig.new"));
        // A file that an earlier process left may have other permissions.
        drop(fs::remove_file(&new));
        let written = open_private(&new).and_then(|mut file| file.write_all(text.as_bytes()));
        written.and_then(|()| fs::rename(&new, &path)).map_err(|error| unwritten(&path, error))
    }
}

/// Removes the folders of a program, and returns their paths.
pub(super) fn clean(name: &str) -> Result<Vec<PathBuf>, FolderError> {
    let mut removed = Vec::new();
    for path in bases().iter().flat_map(|base| (1..=MOST).map(|nth| nth_of(&base.path, name, nth))) {
        let Ok(kept) = File::open(path.join(KEPT)) else { continue };
        if kept.try_lock().is_err() {
            return Err(FolderError::InUse { name: name.to_owned(), path: path.display().to_string() });
        }
        for file in [KUBECONFIG, "kubeconfig.new", KEPT] {
            match fs::remove_file(path.join(file)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(unwritten(&path.join(file), error));
                }
                _ => {}
            }
        }
        // A folder that contains other files stays.
        drop(fs::remove_dir(&path));
        removed.push(path);
    }
    Ok(removed)
}

fn unwritten(path: &Path, error: io::Error) -> FolderError {
    FolderError::Unwritten { path: path.display().to_string(), error }
}

/// The folder for all programs.
struct BaseFolder {
    path: PathBuf,
    /// `true` for a folder of temporary files, in which other users may write, too.
    is_temporary: bool,
}

/// The folders for all programs: the user's state, and temporary files if that cannot be written.
fn bases() -> Vec<BaseFolder> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".local").join("state"));
    let own = if cfg!(windows) { absolute("LOCALAPPDATA") } else { absolute("XDG_STATE_HOME").or_else(home) };
    let (own, temporary) = (own.map(|path| (path, false)), (env::temp_dir(), true));
    let all = own.into_iter().chain([temporary]);
    all.map(|(path, is_temporary)| BaseFolder { path: path.join("kooper"), is_temporary }).collect()
}

/// Refuses a place among temporary files if another user could put other files into it.
fn check(base: &BaseFolder) -> Result<(), FolderError> {
    let Some(above) = base.path.parent().filter(|_| base.is_temporary) else { return Ok(()) };
    is_protected(above).map_err(|error| FolderError::Unusable { path: base.path.display().to_string(), error })
}

/// Returns an error unless only this user and root can replace the folder and those above it. In a
/// sticky folder, only the owner of an entry can replace it.
#[cfg(unix)]
fn is_protected(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    let user = rustix::process::geteuid().as_raw();
    let real = fs::canonicalize(path)?;
    // Links on the way could lead elsewhere the next time.
    for folder in path.ancestors().chain(real.ancestors()).filter(|folder| !folder.as_os_str().is_empty()) {
        let there = fs::symlink_metadata(folder)?;
        let is_own = [0, user].contains(&there.uid());
        let is_sealed = there.is_symlink() || there.mode() & 0o022 == 0 || there.mode() & 0o1000 != 0;
        if !(is_own && is_sealed) {
            let folder = folder.display();
            return Err(io::Error::other(format!("other users can replace the contents of {folder}")));
        }
    }
    Ok(())
}

#[cfg(not(unix))]
fn is_protected(_: &Path) -> io::Result<()> {
    Ok(())
}

/// `echo`, then `echo.2` and so on.
fn nth_of(base: &Path, name: &str, nth: usize) -> PathBuf {
    if nth == 1 { base.join(name) } else { base.join(format!("{name}.{nth}")) }
}

/// Creates a folder that only its user can open.
#[cfg(unix)]
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    // Among temporary files, another user may have created it.
    let there = fs::symlink_metadata(path)?;
    let is_own = there.uid() == rustix::process::geteuid().as_raw() && there.mode() & 0o077 == 0;
    if there.is_dir() && is_own { Ok(()) } else { Err(io::Error::other("other users can open this folder")) }
}

#[cfg(not(unix))]
fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

/// Opens or creates a file that only its user can read and write.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use tempfile::{TempDir, tempdir};

    use super::*;

    fn take(base: &TempDir) -> Folder {
        Folder::take_in(base.path(), "echo").expect("a folder")
    }

    #[test]
    fn what_is_kept_is_there_the_next_time() {
        let base = tempdir().expect("a folder");
        let kept = SavedServer { port: 6443, credentials: "secret".to_owned() };
        let mut folder = take(&base);
        assert_eq!(folder.kept(), None);
        folder.keep(&SavedServer { port: 1, credentials: "a much longer secret".to_owned() }).expect("it is written");
        folder.keep(&kept).expect("it is written");
        drop(folder);
        let mut folder = take(&base);
        assert!(!folder.is_other);
        assert_eq!(folder.kept(), Some(kept));
    }

    #[test]
    fn a_second_process_has_a_folder_of_its_own() {
        let base = tempdir().expect("a folder");
        let first = take(&base);
        let second = take(&base);
        assert!(second.is_other);
        assert_ne!(first.kubeconfig(), second.kubeconfig());
        drop(first);
        assert!(!take(&base).is_other);
    }

    #[cfg(unix)]
    #[test]
    fn the_files_are_for_their_user_alone() {
        use std::os::unix::fs::PermissionsExt;

        let base = tempdir().expect("a folder");
        let mut folder = take(&base);
        folder.keep(&SavedServer { port: 1, credentials: "secret".to_owned() }).expect("it is written");
        folder.write_kubeconfig("one").expect("it is written");
        folder.write_kubeconfig("two").expect("it is written again");
        assert_eq!(fs::read_to_string(folder.kubeconfig()).expect("it is there"), "two");
        for (path, mode) in
            [(folder.path.clone(), 0o700), (folder.path.join(KEPT), 0o600), (folder.kubeconfig(), 0o600)]
        {
            let found = fs::metadata(&path).expect("it is there").permissions().mode() & 0o777;
            assert_eq!(found, mode, "{}", path.display());
        }
        drop(folder);
        fs::set_permissions(base.path().join("echo"), fs::Permissions::from_mode(0o755)).expect("it is ours");
        assert!(matches!(Folder::take_in(base.path(), "echo"), Err(FolderError::Unusable { .. })));
    }
    #[cfg(unix)]
    #[test]
    fn a_temporary_folder_in_which_others_can_replace_files_is_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let base = tempdir().expect("a folder");
        let (above, temporary) = (base.path().join("above"), base.path().join("above/temporary"));
        fs::create_dir_all(&temporary).expect("folders");
        let set = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
        let refused = |path: &Path, is_temporary| {
            let checked = check(&BaseFolder { path: path.join("kooper"), is_temporary });
            checked.err().map(|error| error.to_string()).unwrap_or_default()
        };
        let link = base.path().join("link");
        symlink(&temporary, &link).expect("a link");
        for (of_above, of_temporary, expected) in [
            (0o755, 0o700, true),
            (0o755, 0o1777, true),
            (0o1777, 0o700, true),
            (0o755, 0o777, false),
            (0o755, 0o770, false),
            (0o777, 0o700, false),
            (0o775, 0o1777, false),
        ] {
            set(&above, of_above);
            set(&temporary, of_temporary);
            for path in [&temporary, &link] {
                let why = refused(path, true);
                assert_eq!(why.is_empty(), expected, "{of_above:o} {of_temporary:o}: {why}");
                assert!(expected || why.contains("other users can replace the contents of "), "{why}");
                assert_eq!(refused(path, false), "", "the user has chosen it");
            }
        }
    }
}
