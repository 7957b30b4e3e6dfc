# Runs the trials of bench/managers within the system that has been booted for them.
cp -r /units/* /etc/systemd/system/
sed -i 's|=/usr/bin/|=/programs/|' /etc/systemd/system/tailbound*.service
systemctl daemon-reload
python3 /scripts/manager_trials.py "$(cat /out/trials)" >/out/table 2>/out/trials.log
echo $? >/out/status
