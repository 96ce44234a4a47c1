"""The options of the programs that only read, or only write the files they are given.

Letters whose meaning differs between systems, and all that write elsewhere, run another
program, read a list of file names or follow links, are left out on purpose: a command with
one of them asks. Source: the manuals of GNU coreutils, diffutils, grep, util-linux, ripgrep,
tree, file and jq.
"""

from __future__ import annotations

from .options import OptionTable

__all__ = ["CONTENTS", "NAMES_ONLY", "PRINTERS", "TABLES", "VERSIONED"]

_PRINTERS = {
    "echo": "",
    "pwd": "-LP",
    "true": "",
    "false": "",
    ":": "",
    "whoami": "",
    "sleep": "",
    "nproc": "--all",
    "arch": "",
    "groups": "",
    "id": "-agGnruz --user --group --groups --name --real --zero",
    "uname": "-asnrvmpio --all --kernel-name --nodename --kernel-release --machine --operating-system",
    "seq": "-w -f= -s= -# --equal-width --format= --separator=",
    "basename": "-az -s= --multiple --suffix= --zero",
    "dirname": "-z --zero",
    "which": "-as --all",
    "type": "-aptP",
    "tr": "-cCdst --complement --delete --squeeze-repeats --truncate-set1",
}
_NAMES_ONLY = {
    "ls": "-aAbBcCdFfgGhHiklLmnNopqQrRsStuUvxXZ1 -I= --all --almost-all --author --escape --block-size="
    " --ignore-backups --color? --directory --classify? --file-type --format= --full-time --no-group"
    " --human-readable --si --hide= --indicator-style= --inode --ignore= --kibibytes --numeric-uid-gid --literal"
    " --quote-name --quoting-style= --reverse --recursive --size --sort= --time= --time-style= --width= --zero",
    "stat": "-Lft -c= --dereference --file-system --format= --printf= --terse",
    "wc": "-cmlLw --bytes --chars --lines --max-line-length --words --total=",
    "du": "-0abchHkLlmsSDPx -d= -B= -t= --all --apparent-size --block-size= --bytes --total --max-depth="
    " --human-readable --inodes --separate-dirs --summarize --threshold= --time? --exclude= --one-file-system",
    "df": "-ahHiklPT --all --human-readable --si --inodes --local --portability --print-type --total",
    "realpath": "-emsqLPz --canonicalize-existing --canonicalize-missing --relative-to@ --relative-base@ --strip"
    " --no-symlinks --quiet --zero",
    "readlink": "-femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --zero",
    "tree": "-adfilpshugDFqNQrtcUvnCASJX -L= -P= -I= --dirsfirst --noreport --du --prune --si --gitignore --filelimit="
    " --charset= --matchdirs --ignore-case --inodes --device --sort=",
}
_SUMS = "-btz --binary --tag --text --zero"
_CONTENTS = {
    "cat": "-AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs"
    " --show-nonprinting",
    "head": "-qvz -n= -c= -# --lines= --bytes= --quiet --silent --verbose --zero-terminated",
    "tail": "-fFqvz -n= -c= -s= -# --lines= --bytes= --follow? --retry --quiet --silent --verbose --zero-terminated",
    "nl": "-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w= --body-numbering= --number-width= --number-separator=",
    "od": "-abcdfhiloxv -A= -j= -N= -t= --address-radix= --skip-bytes= --read-bytes= --format= --output-duplicates",
    "hexdump": "-bcCdovx -e= -n= -s= -f@",
    "tac": "-br -s= --before --regex --separator=",
    "rev": "",
    "cut": "-nsz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement --only-delimited"
    " --output-delimiter= --zero-terminated",
    "fold": "-bs -w= --bytes --spaces --width=",
    "paste": "-sz -d= --delimiters= --serial --zero-terminated",
    "comm": "-123iz --check-order --nocheck-order --output-delimiter= --total --zero-terminated",
    "join": "-iz -a= -e= -j= -1= -2= -o= -t= -v= --check-order --nocheck-order --header --ignore-case",
    "cmp": "-bls -i= -n= --print-bytes --ignore-initial= --verbose --bytes= --quiet --silent",
    "diff": "-abBcdeEfilnNpqrstTuwyZ -C= -F= -I= -S= -U= -W= -x= -X@ -# --brief --unified? --context? --recursive"
    " --new-file --side-by-side --color? --ignore-case --ignore-all-space --ignore-space-change --ignore-blank-lines"
    " --ignore-trailing-space --report-identical-files --suppress-common-lines --width= --text --strip-trailing-cr"
    " --exclude= --exclude-from@ --label= --minimal --no-dereference --from-file@ --to-file@ --ed --normal",
    "column": "-tx -s= -o= -c= -N= -R= -H= --table --separator= --output-separator= --json",
    "file": "-bihkLNnr --brief --mime --mime-type --mime-encoding --dereference --no-dereference",
    "uniq": "-cdDiuz -f= -s= -w= --count --repeated --unique --ignore-case --skip-fields= --skip-chars= --check-chars="
    " --all-repeated? --zero-terminated",
    "sort": "-bdfghiMnrRsuVcCmz -k= -t= -S= --key= --field-separator= --reverse --numeric-sort --unique"
    " --human-numeric-sort --version-sort --general-numeric-sort --ignore-case --stable --check? --zero-terminated"
    " --parallel= --random-sort --month-sort --dictionary-order --ignore-leading-blanks --merge --buffer-size= --sort=",
    "md5sum": _SUMS,
    "sha1sum": _SUMS,
    "sha224sum": _SUMS,
    "sha256sum": _SUMS,
    "sha384sum": _SUMS,
    "sha512sum": _SUMS,
    "b2sum": f"{_SUMS} -l= --length=",
    "shasum": "-bt -a= --binary --text --algorithm=",
    "cksum": "-a= --algorithm= --untagged --tag --zero",
}
_OTHERS = {
    "date": "-uR -d= -r@ -I? --date= --utc --universal --iso-8601? --rfc-3339= --rfc-email --reference@",
    "hostname": "-fsdiIA --fqdn --short --domain --ip-address --all-fqdns --all-ip-addresses",
    "grep": "-EFGPivwxycLlqsohHnTZzrUabI -# -e= -m= -A= -B= -C= -d= -D= -f@ --extended-regexp --fixed-strings"
    " --basic-regexp --perl-regexp --regexp= --file@ --ignore-case --no-ignore-case --invert-match --word-regexp"
    " --line-regexp --count --color? --colour? --files-without-match --files-with-matches --max-count="
    " --only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename --label="
    " --line-number --initial-tab --null --after-context= --before-context= --context= --text --binary-files="
    " --directories= --exclude= --exclude-from@ --exclude-dir= --include= --recursive --line-buffered --null-data",
    "rg": "-nNilcwxvFsSHIoqUPpab0 -e= -A= -B= -C= -g= -t= -T= -m= -M= -d= -r= -E= -j= -f@ --files --regexp= --file@"
    " --type= --type-not= --glob= --iglob= --line-number --no-line-number --ignore-case --smart-case --case-sensitive"
    " --files-with-matches --files-without-match --count --count-matches --word-regexp --line-regexp --fixed-strings"
    " --multiline --multiline-dotall --context= --after-context= --before-context= --max-count= --max-depth="
    " --max-columns= --no-heading --heading --color= --json --stats --sort= --sortr= --only-matching --replace="
    " --invert-match --no-filename --with-filename --trim --column --vimgrep --pcre2 --passthru --null --type-list"
    " --text --crlf --encoding= --threads=",
    "jq": "-cnrRsSeajCM --compact-output --null-input --raw-output --raw-input --slurp --sort-keys --exit-status --tab"
    " --join-output --ascii-output --color-output --monochrome-output --indent=",
    "mkdir": "-pv --parents --verbose",
    "touch": "-acm -d= -t= -r@ --no-create --date= --reference@ --time=",
    "tee": "-aip --append --ignore-interrupts",
    "cp": "-fnpTuv -t= --force --no-clobber --no-target-directory --update --verbose --target-directory=",
    "mv": "-finTuv -t= --force --interactive --no-clobber --no-target-directory --update --verbose --target-directory=",
}

PRINTERS = frozenset(_PRINTERS)
"""Print something and touch no file."""
NAMES_ONLY = frozenset(_NAMES_ONLY)
"""Show names, sizes and times of their operands, never what is in them."""
CONTENTS = frozenset(_CONTENTS)
"""Show what is in their operands."""
TABLES = {name: OptionTable.of(text) for name, text in (_PRINTERS | _NAMES_ONLY | _CONTENTS | _OTHERS).items()}
"""Program -> its options. `egrep` and `fgrep` are looked up as `grep`."""

VERSIONED = frozenset("python python3 node ruby perl gcc g++ clang cc make cmake bash java git jq rg".split())
"""Programs that print their version for `--version` and look at no file of the workspace for it.

Left out are those that a file in the workspace can redirect (cargo, rustc and go by their
toolchain files, pytest by its configuration).
"""
