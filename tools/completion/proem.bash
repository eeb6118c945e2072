# SPDX-License-Identifier: MIT
# bash completion for proem

_proem_words() {
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
}

_proem_files() { # EXTENSIONS, separated by |
    compopt -o filenames 2>/dev/null
    local file
    COMPREPLY=()
    while IFS= read -r file; do
        if [[ -d $file || $file =~ \.($1)$ ]]; then COMPREPLY+=("$file"); fi
    done < <(compgen -f -- "$cur")
}

_proem() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    # readline splits words at '='; an option's value then follows it
    if [[ $cur == = ]]; then
        cur=""
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD - 2]}
    fi

    if [[ $COMP_CWORD -eq 1 ]]; then
        _proem_words "run explain emit bench fmt convert doctor cache --version"
        return
    fi
    case $prev in
    --device) _proem_words "cpu cuda ref" ;;
    --arch) _proem_words "generic avx2 avx512 avx512fp16 neon sm_80 sm_90 sm_90a sm_100a" ;;
    --precision) _proem_words "boundary eager native" ;;
    --fuse) _proem_words "model always never" ;;
    --assume) _proem_words "bandwidth" ;;
    --vs) _proem_words "unfused" ;;
    --tune) _proem_words "order" ;;
    --check) _proem_words "rows:" ;;
    --onnx) _proem_files "onnx" ;;
    --weights) _proem_files "npz|safetensors|gguf" ;;
    --dump-dir | -o)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        ;;
    --in | --out | --dim | --graph | --seed | --threads | -d | --run-pass) _proem_files "npy" ;;
    cache) _proem_words "stat clear" ;;
    *)
        local inputs="--in --weights --seed" all own=""
        all="--dim --graph --precision --threads --fuse --assume --tune --strict -d --dump-dir"
        all+=" --run-pass --version"
        case $command in
        run) own="$inputs --out --device --arch --check --json" ;;
        explain) own="$inputs --device --arch --json --onnx" ;;
        emit) own="$inputs --device --arch -o" ;;
        bench) own="$inputs --device --arch --vs --json" ;;
        convert) own="--in -o" ;;
        esac
        if [[ $cur == -* ]]; then
            _proem_words "$own $all"
        else
            _proem_files "proem|onnx"
        fi
        ;;
    esac
}

complete -F _proem proem
