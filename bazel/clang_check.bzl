"""clang-tidy and clang's thread-safety analysis as one cached action per source file.

Use: bazel build --config=clang //...
"""

def _flags(context):
    return (
        ["-D" + define for define in context.defines.to_list()] +
        ["-iquote" + path for path in context.quote_includes.to_list()] +
        ["-I" + path for path in context.includes.to_list()] +
        ["-isystem" + path for path in context.system_includes.to_list()]
    )

def _clang_check_impl(target, ctx):
    rule = ctx.rule.attr

    # Tests are not checked: GoogleTest's headers would double the time.
    if ctx.rule.kind not in ["cc_library", "cc_binary"]:
        return []
    own = rule.srcs + getattr(rule, "hdrs", [])
    files = depset(transitive = [label.files for label in own])

    # Generated code is not checked.
    sources = [file for file in files.to_list() if file.is_source and file.extension == "cc"]
    deps = [dep[CcInfo] for dep in rule.deps if CcInfo in dep]
    context = cc_common.merge_cc_infos(cc_infos = deps).compilation_context
    stamps = []
    for source in sources:
        stamp = ctx.actions.declare_file("%s.%s.clang_check" % (target.label.name, source.basename))
        ctx.actions.run(
            executable = ctx.executable._script,
            arguments = [stamp.path, ctx.file._config.path, source.path, "-iquote."] + _flags(context),
            inputs = depset([ctx.file._config], transitive = [files, context.headers]),
            outputs = [stamp],
            mnemonic = "ClangCheck",
            progress_message = "Checking %s" % source.short_path,
            use_default_shell_env = True,
        )
        stamps.append(stamp)
    return [OutputGroupInfo(clang_check = depset(stamps))]

clang_check = aspect(
    implementation = _clang_check_impl,
    attrs = {
        "_config": attr.label(
            default = "//:.clang-tidy",
            allow_single_file = True,
        ),
        "_script": attr.label(
            default = "//bazel:clang_check.sh",
            allow_single_file = True,
            executable = True,
            cfg = "exec",
        ),
    },
)
