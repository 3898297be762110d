-- What a job of several tasks needs because of its MPI: flux-agent looks at the program. Options of the user count.
-- Flux's shell runs this before it makes the tasks (flux-shell-initrc(5)), in every job with FLUX_SHELL_RC_PATH.
local options = shell.options
if shell.info.ntasks == 1 and not options.pmi then return end

local words = {
    "@AGENT@", "mpi",
    "--plugins=" .. plugin.searchpath,
    "--path=" .. (shell.getenv ("PATH") or ""),
    "--library-path=" .. (shell.getenv ("LD_LIBRARY_PATH") or ""),
}
if options.pmi then table.insert (words, "--pmi=" .. tostring (options.pmi)) end
table.insert (words, "--")
for _, word in ipairs (shell.info.jobspec.tasks[1].command) do table.insert (words, word) end
for index, word in ipairs (words) do
    words[index] = "'" .. word:gsub ("'", "'\\''") .. "'"
end

-- An image without a shell gives no answer.
for line in io.popen (table.concat (words, " ")):lines () do
    local name, text = line:match ("^(%S+) (.*)$")
    if name == "refuse" then
        shell.die (text)
    elseif name == "pmi" then
        options.pmi = text
        -- It was loaded before, when the option was not set, and does nothing then.
        plugin.load { file = "pmix.so" }
    elseif options[name] == nil and options["exit-timeout"] == nil then
        options[name] = text
    end
end
