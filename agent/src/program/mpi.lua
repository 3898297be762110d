-- What a job needs because of its MPI. Options and variables of the user count.
-- Flux's shell runs this before it makes the tasks (flux-shell-initrc(5)), in every job with FLUX_SHELL_RC_PATH.
local options = shell.options

-- Open MPI loads its components for the networks PSM and PSM2 before it looks whether the kernel has them, below
-- /sys/class/infiniband (`mtl_psm_component.c`, `mtl_psm2_component.c`). Their libraries measure the clock when they are
-- loaded, 0.1 s each. So, without that directory, they join the components that the package of Debian excludes.
local function exclude_absent_networks ()
    for _, name in ipairs { "mtl", "mca_base_param_files", "mca_base_param_file_prefix" } do
        if shell.getenv ("OMPI_MCA_" .. name) then return end
    end
    local of_user = (shell.getenv ("HOME") or "") .. "/.openmpi/mca-params.conf"
    if io.open ("/sys/class/infiniband") or io.open (of_user) then return end
    local of_package = io.open ("/etc/openmpi/openmpi-mca-params.conf")
    if not of_package then return end
    local components = ""
    for line in of_package:lines () do
        components = line:match ("^%s*mtl%s*=%s*(.-)%s*$") or components
    end
    if components:match ("^^") then
        shell.setenv ("OMPI_MCA_mtl", components .. ",psm,psm2")
    end
end
exclude_absent_networks ()

-- The tasks of a job of several find each other by what flux-agent chooses, which looks at the program.
if shell.info.ntasks == 1 and not options.pmi then return end

local function quoted (word)
    return "'" .. word:gsub ("'", "'\\''") .. "'"
end

-- A line for the image's shell: one without a shell gives no answer.
local function line (words)
    local all = { quoted (@AGENT@) }
    for _, word in ipairs (words) do table.insert (all, quoted (word)) end
    return table.concat (all, " ")
end

-- Ends the job when its first task has failed: the others would wait for it.
local function end_with_a_failed_task ()
    local has_failed = false
    local function ended ()
        local task = task.info
        if has_failed or task.wait_status == 0 then return end
        has_failed = true
        local failed = line { "mpi-failed", shell.getenv ("FLUX_JOB_ID"),
            string.format ("%d", task.rank), string.format ("%d", task.wait_status) }
        os.execute (failed .. " > /dev/null 2>&1 &")
    end
    plugin.register { name = "flux-agent", handlers = { { topic = "task.exit", fn = ended } } }
end

local function has_own_end ()
    return options["exit-timeout"] or options["exit-on-error"]
end

-- The agent has looked already where it has submitted the job itself.
local answer = options["flux-agent-mpi"]
if answer then
    if answer == "yes" and not has_own_end () then end_with_a_failed_task () end
    return
end

local words = {
    "mpi",
    "--plugins=" .. plugin.searchpath,
    "--path=" .. (shell.getenv ("PATH") or ""),
    "--library-path=" .. (shell.getenv ("LD_LIBRARY_PATH") or ""),
}
if options.pmi then table.insert (words, "--pmi=" .. tostring (options.pmi)) end
table.insert (words, "--")
for _, word in ipairs (shell.info.jobspec.tasks[1].command) do table.insert (words, word) end

for answer in io.popen (line (words)):lines () do
    local verb, text = answer:match ("^(%S+) ?(.*)$")
    if verb == "refuse" then
        shell.die (text)
    elseif verb == "pmi" then
        options.pmi = text
        -- It was loaded before, when the option was not set, and does nothing then.
        plugin.load { file = "pmix.so" }
    elseif verb == "mpi" and not has_own_end () then
        end_with_a_failed_task ()
    end
end
