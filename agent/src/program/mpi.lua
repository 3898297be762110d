-- What a job needs because of its container and its MPI. Options and variables of the user count.
-- Flux's shell runs this before it makes the tasks (flux-shell-initrc(5)), in every job with FLUX_SHELL_RC_PATH.
local options = shell.options

-- Flux binds tasks to the first cores of the container. Other containers of the node run there, too, unless a CPU manager
-- has given this one cores of its own: else the kernel chooses, and no core is shared while another is idle.
if not @OWN_CORES@ and options["cpu-affinity"] == nil then
    options["cpu-affinity"] = "off"
end

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
    end
end
