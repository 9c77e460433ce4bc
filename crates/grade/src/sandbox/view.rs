//! What a tested program sees of the file system, said in two ways.
//!
//! As a new root: an empty file system in memory, of fixed size, with the interpreter's folders mounted read-only
//! at their places and one scratch folder; it vanishes with the program. And as a landlock ruleset that allows the
//! same reads and the same writes. Each suffices; both are used where both can be had.

use std::ffi::CString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    Scope, path_beneath_rules,
};

/// Where the old root hangs while the new one is built.
pub(super) const OLD_ROOT: &str = "/old-root";
/// The one folder that a program may write to.
pub(super) const SCRATCH: &str = "/scratch";

/// One step in building the new root; the paths of `Bind` name the same thing in the old and the new root.
#[derive(Debug)]
pub(super) enum Step {
    Folder(CString),
    File(CString),
    Link { target: CString, at: CString },
    Bind { from: CString, to: CString },
}

/// The steps that show these paths, and the folders above them, in an empty root.
pub(super) fn steps(readable: &[PathBuf]) -> std::io::Result<Vec<Step>> {
    let mut steps = vec![Step::Folder(c_path(Path::new(SCRATCH))?)];
    let mut made: Vec<PathBuf> = vec![PathBuf::from("/")];
    for path in readable {
        for folder in folders_above(path) {
            // A folder on the way that is itself a link (`/lib64` on most systems) leads to one that is shown.
            if !made.contains(&folder) && !readable.iter().any(|shown| folder.starts_with(shown)) {
                steps.push(Step::Folder(c_path(&folder)?));
                made.push(folder);
            }
        }
        let at = c_path(path)?;
        if path.is_symlink() {
            steps.push(Step::Link { target: c_path(&fs::read_link(path)?)?, at });
            continue;
        }
        let from = c_path(Path::new(&format!("{OLD_ROOT}{}", path.display())))?;
        steps.push(if path.is_dir() { Step::Folder(at.clone()) } else { Step::File(at.clone()) });
        steps.push(Step::Bind { from, to: at });
    }
    Ok(steps)
}

fn folders_above(path: &Path) -> Vec<PathBuf> {
    let mut folder = PathBuf::new();
    let mut all = Vec::new();
    for component in path.parent().into_iter().flat_map(Path::components) {
        folder.push(component);
        if component != Component::RootDir {
            all.push(folder.clone());
        }
    }
    all
}

/// The version of landlock that the kernel offers, if any.
pub(super) fn landlock_version() -> Option<i32> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with no attributes and this flag, the call reads no memory and only returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0_usize, VERSION)
    };
    i32::try_from(version).ok().filter(|version| *version > 0)
}

/// A ruleset that allows reading these paths and starting programs from them, and nothing else: no writes, no TCP,
/// no signals to processes outside. Older kernels know fewer of these rules; the first version knows all that
/// concern reading and writing.
pub(super) fn ruleset(readable: &[PathBuf]) -> Result<Option<OwnedFd>, landlock::RulesetError> {
    let newest = ABI::V6;
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(newest))?
        .handle_access(AccessNet::from_all(newest))?
        .scope(Scope::from_all(newest))?
        .create()?
        .add_rules(path_beneath_rules(readable, AccessFs::from_read(newest)))?;
    Ok(created.into())
}

/// What may be done in the scratch folder, as landlock's bits: everything with plain files, folders and links.
pub(super) fn scratch_access(version: i32) -> u64 {
    let special = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock;
    let known = if version >= 3 { ABI::V3 } else { ABI::V1 };
    (AccessFs::from_all(known) & !(special | AccessFs::MakeFifo)).bits()
}

/// A path as the kernel takes it.
pub(super) fn c_path(path: &Path) -> std::io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
